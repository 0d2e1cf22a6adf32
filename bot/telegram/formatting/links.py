"""Addresses of links: which of them Telegram takes, and what is shown of the others.

Pure. One refused address makes Telegram refuse the whole message.
"""

import re
from collections.abc import Iterator
from string import punctuation

from bot.telegram.formatting.markdown_events import Edit, Event

_WEB = re.compile(
    r"https?://(?P<host>[\w.-]+)(?::(?P<port>[0-9]{1,5}))?(?:[/?#][^\s\x00-\x1f\x7f]*)?", re.IGNORECASE
)
_USELESS = ("#", "data:", "tg://emoji")
_LONGEST_SHOWN = 300


def is_web(url: str) -> bool:
    """Whether Telegram takes the address as a link: http(s) with a dotted host and nothing clever in it."""
    found = _WEB.fullmatch(url)
    if found is None or not all(found["host"].split(".")) or "." not in found["host"]:
        return False
    return found["port"] is None or 0 < int(found["port"]) < 65536


def is_sham(link: dict[str, str]) -> bool:
    """Whether a link in angle brackets is none, like `<std::vector>`."""
    return link["link_type"] == "Autolink" and not is_web(link["dest_url"])


def is_useful(url: str) -> bool:
    """Whether a person can do something with the bare address."""
    return not url.startswith(_USELESS) and len(url) <= _LONGEST_SHOWN


def shown_addresses(events: tuple[Event, ...]) -> Iterator[Edit]:
    """Text for links that have none, and the address behind links that lose theirs."""
    open_links: list[tuple[Event, list[str]]] = []
    for event in events:
        if event.opens("Link", "Image"):
            open_links.append((event, []))
        elif event.closes("Link", "Image"):
            link, label = open_links.pop()
            yield from _shown(link, "".join(label).strip())
        elif open_links and event.name in ("Text", "Code"):
            for _, label in open_links:
                label.append(event.value)


def _shown(event: Event, label: str) -> Iterator[Edit]:
    link = event.value
    url = link["dest_url"].removeprefix("mailto:")
    if not label:
        inside = event.start + (2 if event.kind == "Image" else 1)
        yield Edit(inside, inside, _escaped(url or link["title"]))
    lost = url if not is_web(url) and url != label and is_useful(url) else ""
    notes = [note for note in (link["title"], lost) if note and label]
    if notes and link["link_type"] not in ("Autolink", "Email"):
        yield Edit(event.end, event.end, _escaped(f" ({', '.join(notes)})"))


def _escaped(text: str) -> str:
    """Markdown that shows exactly this text, on one line."""
    return "".join("\\" + char if char in punctuation else char for char in text.replace("\n", " "))
