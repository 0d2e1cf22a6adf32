"""URLs of links: which of them Telegram takes, and what is shown of the others.

Pure. Telegram refuses a whole message for one URL that it does not take.
"""

import re
from collections.abc import Iterable, Iterator
from string import punctuation

from bot.telegram.formatting.markdown_events import Edit, MarkdownEvent

_WEB_URL = re.compile(
    r"https?://(?P<host>[\w.-]+)(?::(?P<port>[0-9]{1,5}))?(?:[/?#][^\s\x00-\x1f\x7f]*)?", re.IGNORECASE
)
_USELESS_PREFIXES = ("#", "data:", "tg://emoji")
_MAX_URL_CHARS = 300


def is_web_url(url: str) -> bool:
    """Whether Telegram takes the URL as a link: http(s) with a dotted host and nothing unusual in it."""
    match = _WEB_URL.fullmatch(url)
    if match is None or not all(match["host"].split(".")) or "." not in match["host"]:
        return False
    return match["port"] is None or 0 < int(match["port"]) < 65536


def is_fake_link(link: dict[str, str]) -> bool:
    """Whether a link in angle brackets is not a link, like `<std::vector>`."""
    return link["link_type"] == "Autolink" and not is_web_url(link["dest_url"])


def is_useful_url(url: str) -> bool:
    """Whether a person can use the bare URL."""
    return not url.startswith(_USELESS_PREFIXES) and len(url) <= _MAX_URL_CHARS


def list_labels(events: Iterable[MarkdownEvent]) -> Iterator[tuple[MarkdownEvent, str, bool]]:
    """Yield links and images as they end, each with its label, and whether it stands in another one."""
    open_links: list[tuple[MarkdownEvent, list[str]]] = []
    for event in events:
        if event.is_start_of("Link", "Image"):
            open_links.append((event, []))
        elif event.is_end_of("Link", "Image"):
            link, label = open_links.pop()
            yield link, "".join(label).strip(), bool(open_links)
        elif event.name in ("Text", "Code"):
            for _, label in open_links:
                label.append(event.value)


def build_link_edits(events: Iterable[MarkdownEvent]) -> Iterator[Edit]:
    """Yield edits that give text to links without any, and write out URLs that Telegram would not take."""
    for link, label, _ in list_labels(events):
        yield from _build_edits(link, label)


def _build_edits(event: MarkdownEvent, label: str) -> Iterator[Edit]:
    link = event.value
    url = link["dest_url"].removeprefix("mailto:")
    if not label:
        opening = "![" if event.kind == "Image" else "["
        inside = event.start + len(opening)
        yield Edit(inside, inside, escape_markdown(url or link["title"]))
        return
    if link["link_type"] in ("Autolink", "Email"):
        return
    notes = []
    if link["title"]:
        notes.append(link["title"])
    if url and url != label and is_useful_url(url) and not is_web_url(url):
        notes.append(url)
    if notes:
        yield Edit(event.end, event.end, escape_markdown(f" ({', '.join(notes)})"))


def escape_markdown(text: str) -> str:
    """Return Markdown that shows exactly this text, on one line."""
    return "".join("\\" + char if char in punctuation else char for char in text.replace("\n", " "))
