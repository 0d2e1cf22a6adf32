"""How counts, shares and seconds are written in reports and on the admins' page. Pure.

Unknown is called unknown, and never 0; a sum with gaps is "at least".
"""

from collections.abc import Callable
from typing import TypeVar

from bot.translations.translator import translatable

Number = TypeVar("Number", int, float)

UNKNOWN = translatable("unknown")
EMPTY_CELL = "–"


def get_known(value: Number, known: int, total: int) -> Number | None:
    """A sum over the `known` of `total` calls or turns; None if none of them is known."""
    return None if total and not known else value


def format_count(
    count: float | None, *, is_complete: bool = True, write: Callable[[float], str] = "{:,}".format
) -> str:
    """A count as `write` writes it; one that is not complete is a lower bound."""
    if count is None:
        return UNKNOWN
    if is_complete:
        return write(count)
    return f"≥ {write(count)}"


def format_at_least(
    number: int, known: int, total: int, *, partial: int = 0, write: Callable[[float], str] = "{:,}".format
) -> str:
    """A sum over the `known` of `total` calls, `partial` of which were cut before their end."""
    is_complete = known == total and not partial
    return format_count(get_known(number, known, total), is_complete=is_complete, write=write)


def format_canvases(count: int | None, prefix: str) -> str:
    """An estimate of canvases; `prefix` says how good it is."""
    if count is None:
        return "canvases unknown"
    if count == 1:
        return f"{prefix}1 canvas (estimated)"
    return f"{prefix}{count} canvases (estimated)"


def format_share(part: float, total: float, *, decimals: int = 1) -> str:
    """A share of what is known; unknown if nothing is."""
    if total:
        return f"{100 * part / total:.{decimals}f} %"
    return UNKNOWN


def format_seconds(value: float | None, *, is_complete: bool = True) -> str:
    """Seconds with as many decimal places as matter."""
    if value is None:
        return UNKNOWN
    if not is_complete:
        return f"≥ {format_seconds(value)}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.1f}"
    return f"{value:.3f}"


def format_known_seconds(seconds: float, known: int, total: int) -> str:
    """Seconds over the `known` of `total` turns."""
    return format_seconds(get_known(seconds, known, total), is_complete=known == total)


def format_steps(steps: float | None) -> str:
    """Denoising steps a canvas, on average."""
    return UNKNOWN if steps is None else f"{steps:.1f}"
