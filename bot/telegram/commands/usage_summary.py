"""What turns took, in few lines for a phone: canvases (estimated), seconds, tokens. Pure.

Unknown is said to be unknown, and a sum with unknown parts is "at least". No rate: seconds and counts say
enough.
"""

from bot.db.usage.spending import RankedSpender, SpendingOverview, SpendingSums
from bot.usage.tables import UNKNOWN

MAX_LINE_CHARS = 35  # characters of a line that a phone shows whole


def format_summary(last: SpendingSums | None, today: SpendingSums, month: SpendingSums) -> str:
    """At most four lines, each under 36 characters; `month` is the last 30 days."""
    if last is None and not month.turns:
        return "Nothing yet. Ask me something."
    tokens = [] if last is None else [_format_line("Last", last), _format_tokens(last)]
    return "\n".join([*tokens, _format_line("Today", today), _format_line("30 d", month)])


def format_ranking(today: SpendingSums, month: SpendingOverview) -> str:
    """What everybody took, and who took most in 30 days, in lines under 36 characters."""
    if not month.total.turns:
        return "Nothing yet in the last 30 days."
    told = ["Everybody:", _format_line("Today", today), _format_line("30 d", month.total)]
    for heading, ranked in (
        ("People, canvases in 30 d:", month.people),
        ("Chats, canvases in 30 d:", month.chats),
    ):
        told += [heading, *(_format_rank(number, one) for number, one in enumerate(ranked, start=1))]
    return "\n".join(told)


def _format_rank(number: int, entry: RankedSpender) -> str:
    name = " ".join(entry.name.split())
    before = f"{number}. "
    behind = f": {_format_count(entry.spending.canvases, entry.spending)}, {format_seconds(entry.spending.seconds)}"
    room = MAX_LINE_CHARS - len(before) - len(behind)
    return f"{before}{name if len(name) <= room else f'{name[: room - 1]}…'}{behind}"


def _format_line(label: str, spent: SpendingSums) -> str:
    if not spent.turns:
        return f"{label}: nothing yet"
    unit = "canvas" if spent.canvases == 1 else "canvases"
    count = _format_count(spent.canvases, spent)
    if count == UNKNOWN:
        canvases = "canvases unknown"
    else:
        canvases = f"{count} {unit} est."
    return f"{label}: {canvases}, {format_seconds(spent.seconds)}"


def _format_tokens(spent: SpendingSums) -> str:
    return f"Tokens: {_format_count(spent.input_tokens, spent)} in, {_format_count(spent.output_tokens, spent)} out"


def _format_count(number: int | None, spent: SpendingSums) -> str:
    if number is None:
        if spent.calls:
            return UNKNOWN
        return "0"
    if spent.is_complete:
        return abbreviate_count(number)
    return f"≥{abbreviate_count(number)}"


def abbreviate_count(number: int) -> str:
    """A count in at most four characters: 999, 1.2k, 12k, 1.2M. Rounded down, so that "at least" stays true."""
    for size, sign in ((1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")):
        if number >= size:
            if number < 10 * size:
                return f"{number * 10 // size / 10}{sign}"
            return f"{number // size}{sign}"
    return str(number)


def format_seconds(seconds: float) -> str:
    """A time as precisely as it matters: 6.4 s, 100 s, 21 min, 2 h."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    if seconds < 999.5:
        return f"{seconds:.0f} s"
    if seconds < 5970:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"
