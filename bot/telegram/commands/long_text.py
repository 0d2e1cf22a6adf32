"""Long texts about tools as messages: several of them, or one that is cut. Pure."""

from collections.abc import Sequence

from bot.domain import Button, Part
from bot.telegram.actions import MAX_PAGE_UNITS, count_utf16_units

ButtonRows = tuple[tuple[Button, ...], ...]


def build_parts(lines: Sequence[str], buttons: ButtonRows = ()) -> tuple[Part, ...]:
    """Long texts as several messages, the buttons under the last."""
    texts = []
    text = ""
    for line in lines:
        for piece in [
            line[at : at + MAX_PAGE_UNITS // 2] for at in range(0, len(line), MAX_PAGE_UNITS // 2)
        ] or [""]:
            if text and count_utf16_units(f"{text}\n{piece}") > MAX_PAGE_UNITS:
                texts.append(text)
                text = piece
            else:
                text = f"{text}\n{piece}" if text else piece
    texts.append(text)
    return (*(Part(one) for one in texts[:-1]), Part(texts[-1], buttons=buttons))


def truncate_text(text: str) -> str:
    """A text as one message at most."""
    if count_utf16_units(text) <= MAX_PAGE_UNITS:
        return text
    return f"{text[: MAX_PAGE_UNITS // 2]}\n…"
