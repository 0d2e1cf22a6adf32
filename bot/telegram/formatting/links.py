"""Addresses of links: which of them Telegram takes, and what is shown of the others.

Pure. One refused address makes Telegram refuse the whole message.
"""

import re
from collections.abc import Iterator
from string import punctuation

from bot.telegram.formatting.markdown_events import Edit, MarkdownEvent

_WEB_URL = re.compile(
    r"https?://(?P<host>[\w.-]+)(?::(?P<port>[0-9]{1,5}))?(?:[/?#][^\s\x00-\x1f\x7f]*)?", re.IGNORECASE
)
_USELESS_PREFIXES = ("#", "data:", "tg://emoji")
_MAX_URL_CHARS = 300


def is_web_url(url: str) -> bool:
    """Whether Telegram takes the address as a link: http(s) with a dotted host and nothing clever in it."""
    found = _WEB_URL.fullmatch(url)
    if found is None or not all(found["host"].split(".")) or "." not in found["host"]:
        return False
    return found["port"] is None or 0 < int(found["port"]) < 65536


def is_fake_link(link: dict[str, str]) -> bool:
    """Whether a link in angle brackets is none, like `<std::vector>`."""
    return link["link_type"] == "Autolink" and not is_web_url(link["dest_url"])


def is_useful_url(url: str) -> bool:
    """Whether a person can do something with the bare address."""
    return not url.startswith(_USELESS_PREFIXES) and len(url) <= _MAX_URL_CHARS


def build_link_edits(events: tuple[MarkdownEvent, ...]) -> Iterator[Edit]:
    """Text for links that have none, and the address behind links that lose theirs."""
    open_links: list[tuple[MarkdownEvent, list[str]]] = []
    for event in events:
        if event.is_start_of("Link", "Image"):
            open_links.append((event, []))
        elif event.is_end_of("Link", "Image"):
            link, label = open_links.pop()
            yield from _build_edits(link, "".join(label).strip())
        elif open_links and event.name in ("Text", "Code"):
            for _, label in open_links:
                label.append(event.value)


def _build_edits(event: MarkdownEvent, label: str) -> Iterator[Edit]:
    link = event.value
    url = link["dest_url"].removeprefix("mailto:")
    if not label:
        inside = event.start + (2 if event.kind == "Image" else 1)
        yield Edit(inside, inside, _escape(url or link["title"]))
    lost = url if not is_web_url(url) and url != label and is_useful_url(url) else ""
    notes = [note for note in (link["title"], lost) if note and label]
    if notes and link["link_type"] not in ("Autolink", "Email"):
        yield Edit(event.end, event.end, _escape(f" ({', '.join(notes)})"))


def _escape(text: str) -> str:
    """Markdown that shows exactly this text, on one line."""
    return "".join("\\" + char if char in punctuation else char for char in text.replace("\n", " "))
