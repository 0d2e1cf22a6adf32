"""What admins are told when the tools there are have changed by themselves: what waits for them, what does
not work.

Pure. One line a source, so that a server with a hundred new tools is one line too.
"""

from collections import defaultdict
from collections.abc import Iterator

from bot.db.tools.tools import StoredTool
from bot.tool_registry.assembly import Standing
from bot.tool_registry.loader import Rows

NAMED = 10  # tools of one source that are told by name


def news(rows: Rows, standing: Standing) -> Iterator[tuple[str, str]]:
    """Subjects, and what there is to say about each. `rows` are those before what `standing` notes."""
    waiting: dict[str, list[StoredTool]] = defaultdict(list)
    for row in standing.waiting:
        waiting[row.source].append(row)
    for source, found in waiting.items():
        yield f"tools of {source}", _waiting(source, found)
    before = {one.name: one for one in rows.sources}
    for name, trouble in standing.troubles.items():
        known = before.get(name)
        # A server that is away says so in other words each time; a file that is mended wrongly is news.
        is_news = known is None or known.kind == "file" or known.trouble is None
        if trouble is not None and is_news:
            yield f"source {name}", f"Of the tools of {name}: {trouble}."
    if rows.sealed is not None:
        yield "secrets", rows.sealed


def _waiting(source: str, found: list[StoredTool]) -> str:
    told = ", ".join(f"{row.name} ({_why(row)})" for row in found[:NAMED])
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return (
        f"Of {source} these tools rest until an admin has looked: {told}{more}. /tools show NAME shows one."
    )


def _why(row: StoredTool) -> str:
    why = "changed" if row.definition else "new"
    if row.flagged:
        return f"{why}, its words want a second look"
    return why
