"""What turns took, in four lines for a phone: canvases (estimated), seconds, tokens. Pure.

Unknown is said to be unknown, and a sum with unknown parts is "at least". No rate: seconds and counts say enough.
"""

from bot.db.usage import Spent


def lines(last: Spent | None, today: Spent) -> str:
    """At most four lines, each under 36 characters."""
    if last is None and not today.turns:
        return "Nothing yet. Ask me something."
    of_today = _lines("Today", today) if today.turns else ["Today: nothing yet"]
    return "\n".join((_lines("Last", last) if last else []) + of_today)


def _lines(what: str, spent: Spent) -> list[str]:
    unit = "canvas" if spent.canvases == 1 else "canvases"
    canvases = "canvases unknown" if spent.canvases is None else f"{_count(spent.canvases, spent)} {unit} est."
    tokens = f"Tokens: {_count(spent.input_tokens, spent)} in, {_count(spent.output_tokens, spent)} out"
    return [f"{what}: {canvases}, {seconds(spent.seconds)}", tokens]


def _count(number: int | None, spent: Spent) -> str:
    if number is None:
        return "unknown"
    return short(number) if spent.whole else f"≥{short(number)}"


def short(number: int) -> str:
    """A count in at most four characters: 999, 1.2k, 12k, 1.2M. Rounded down, so that "at least" stays true."""
    for size, sign in ((1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")):
        if number >= size:
            return f"{number * 10 // size / 10}{sign}" if number < 10 * size else f"{number // size}{sign}"
    return str(number)


def seconds(time: float) -> str:
    """A time as precisely as it matters: 6.4 s, 100 s, 21 min, 2 h."""
    if time < 99.95:
        return f"{time:.1f} s"
    if time < 999.5:
        return f"{time:.0f} s"
    return f"{time / 60:.0f} min" if time < 5970 else f"{time / 3600:.0f} h"
