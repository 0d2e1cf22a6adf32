"""What turns took, in few lines for a phone: canvases (estimated), seconds, tokens. Pure.

Unknown is said to be unknown, and a sum with unknown parts is "at least". No rate: seconds and counts say
enough.
"""

from bot.db.usage.spending import Everybody, Ranked, Spent
from bot.usage.tables import UNKNOWN

WIDTH = 35  # characters of a line that a phone shows whole


def lines(last: Spent | None, today: Spent, month: Spent) -> str:
    """At most four lines, each under 36 characters; `month` is the last 30 days."""
    if last is None and not month.turns:
        return "Nothing yet. Ask me something."
    tokens = [] if last is None else [_line("Last", last), _tokens(last)]
    return "\n".join([*tokens, _line("Today", today), _line("30 d", month)])


def ranking(today: Spent, month: Everybody) -> str:
    """What everybody took, and who took most in 30 days, in lines under 36 characters."""
    if not month.whole.turns:
        return "Nothing yet in the last 30 days."
    told = ["Everybody:", _line("Today", today), _line("30 d", month.whole)]
    for heading, ranked in (
        ("People, canvases in 30 d:", month.people),
        ("Chats, canvases in 30 d:", month.chats),
    ):
        told += [heading, *(_place(number, one) for number, one in enumerate(ranked, start=1))]
    return "\n".join(told)


def _place(number: int, one: Ranked) -> str:
    name = " ".join(one.name.split())
    before = f"{number}. "
    behind = f": {_count(one.spent.canvases, one.spent)}, {seconds(one.spent.seconds)}"
    room = WIDTH - len(before) - len(behind)
    return f"{before}{name if len(name) <= room else f'{name[: room - 1]}…'}{behind}"


def _line(what: str, spent: Spent) -> str:
    if not spent.turns:
        return f"{what}: nothing yet"
    unit = "canvas" if spent.canvases == 1 else "canvases"
    count = _count(spent.canvases, spent)
    if count == UNKNOWN:
        canvases = "canvases unknown"
    else:
        canvases = f"{count} {unit} est."
    return f"{what}: {canvases}, {seconds(spent.seconds)}"


def _tokens(spent: Spent) -> str:
    return f"Tokens: {_count(spent.input_tokens, spent)} in, {_count(spent.output_tokens, spent)} out"


def _count(number: int | None, spent: Spent) -> str:
    if number is None:
        if spent.calls:
            return UNKNOWN
        return "0"
    if spent.whole:
        return short(number)
    return f"≥{short(number)}"


def short(number: int) -> str:
    """A count in at most four characters: 999, 1.2k, 12k, 1.2M. Rounded down, so that "at least" stays true."""
    for size, sign in ((1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")):
        if number >= size:
            if number < 10 * size:
                return f"{number * 10 // size / 10}{sign}"
            return f"{number // size}{sign}"
    return str(number)


def seconds(time: float) -> str:
    """A time as precisely as it matters: 6.4 s, 100 s, 21 min, 2 h."""
    if time < 99.95:
        return f"{time:.1f} s"
    if time < 999.5:
        return f"{time:.0f} s"
    if time < 5970:
        return f"{time / 60:.0f} min"
    return f"{time / 3600:.0f} h"
