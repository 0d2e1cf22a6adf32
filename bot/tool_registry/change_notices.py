"""What admins are told when the tools there are have changed by themselves: what waits for them, what does
not work.

Pure. One line a source, so that a server with a hundred new tools is one line too.
"""

from collections import defaultdict
from collections.abc import Iterator

from bot.db.tools.tools import StoredTool
from bot.tool_registry.assembly import RegistryState
from bot.tool_registry.loader import RegistryRows

MAX_NAMED_TOOLS = 10  # tools of one source that are told by name


def build_notices(rows: RegistryRows, state: RegistryState) -> Iterator[tuple[str, str]]:
    """Subjects, and what there is to say about each. `rows` are those before what `standing` notes."""
    waiting: dict[str, list[StoredTool]] = defaultdict(list)
    for row in state.newly_pending:
        waiting[row.source].append(row)
    for source, found in waiting.items():
        yield f"tools of {source}", _format_pending(source, found)
    before = {one.name: one for one in rows.sources}
    for name, trouble in state.trouble_changes.items():
        known = before.get(name)
        # A server that is away says so in other words each time; a file that is mended wrongly is news.
        is_news = known is None or known.kind == "file" or known.trouble is None
        if trouble is not None and is_news:
            yield f"source {name}", f"Of the tools of {name}: {trouble}."
    if rows.secrets_error is not None:
        yield "secrets", rows.secrets_error


def _format_pending(source_name: str, pending_rows: list[StoredTool]) -> str:
    told = ", ".join(f"{row.name} ({_describe_reason(row)})" for row in pending_rows[:MAX_NAMED_TOOLS])
    more = f" and {len(pending_rows) - MAX_NAMED_TOOLS} more" if len(pending_rows) > MAX_NAMED_TOOLS else ""
    return f"Of {source_name} these tools rest until an admin has looked: {told}{more}. /tools show NAME shows one."


def _describe_reason(row: StoredTool) -> str:
    why = "changed" if row.definition else "new"
    if row.flagged:
        return f"{why}, its words want a second look"
    return why
