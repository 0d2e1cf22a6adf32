"""Long texts about tools as messages: several of them, or one that is cut. Pure."""

from collections.abc import Sequence

from bot.domain import Button, Part
from bot.telegram.actions import PAGE, units

Rows = tuple[tuple[Button, ...], ...]


def parts(lines: Sequence[str], buttons: Rows = ()) -> tuple[Part, ...]:
    """Long texts as several messages, the buttons under the last."""
    texts = []
    text = ""
    for line in lines:
        for piece in [line[at : at + PAGE // 2] for at in range(0, len(line), PAGE // 2)] or [""]:
            if text and units(f"{text}\n{piece}") > PAGE:
                texts.append(text)
                text = piece
            else:
                text = f"{text}\n{piece}" if text else piece
    texts.append(text)
    return (*(Part(one) for one in texts[:-1]), Part(texts[-1], buttons=buttons))


def cut(text: str) -> str:
    """A text as one message at most."""
    if units(text) <= PAGE:
        return text
    return f"{text[: PAGE // 2]}\n…"
