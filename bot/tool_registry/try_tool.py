"""Runs a tool once for an admin, outside of any turn: never through a grant, within the tool's own limits,
recorded.
"""

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bot.agent.toolbox import Toolbox
from bot.db.conversations.notes import ChatNotes
from bot.db.engine import Database, Transaction
from bot.db.tools import audit
from bot.db.tools.audit import Actor
from bot.domain import Lane, ToolCall, ToolResult
from bot.errors import ChangeRefused
from bot.tool_registry.secret_scanner import mask_secrets
from tools.arguments import check_arguments
from tools.base import Passage, Tool, ToolContext, ToolError

ARGUMENTS_HELP = 'Arguments are JSON, such as {"city": "Rome"}'


@dataclass(frozen=True, slots=True)
class Trial:
    """A tool about to be run: with which arguments, as JSON, for whom and where (its notes are those of the
    chat).
    """

    tool: Tool
    arguments: str
    person: int
    name: str
    lane: Lane


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What came of it, and how many seconds it took; `arguments` are those it really ran with."""

    name: str
    arguments: str
    result: ToolResult
    seconds: float

    @property
    def size(self) -> int:
        """Characters of the whole result."""
        if self.result.full_length is None:
            return len(self.result.text)
        return self.result.full_length


class _EmptyHistory:
    """Nothing was said where a tool is tried."""

    async def find(self, words: str) -> list[Passage]:
        return []

    async def result(self, number: int) -> str | None:
        return None


def parse_arguments(tool: Tool, arguments: str) -> dict[str, Any]:
    """The arguments as the tool will get them. Raises ChangeRefused, saying what is wrong with them."""
    try:
        read = json.loads(arguments or "{}")
    except (ValueError, RecursionError) as error:
        raise ChangeRefused(f"{ARGUMENTS_HELP}; this cannot be read: {str(error)[:100]}.") from None
    try:
        return check_arguments(tool, read)
    except ToolError as error:
        raise ChangeRefused(str(error)) from None


async def run_trial(database: Database, trial: Trial) -> TrialResult:
    """Run it once. Raises ChangeRefused when the arguments do not fit."""
    arguments = parse_arguments(trial.tool, trial.arguments)
    key = uuid.uuid4().hex
    notes = ChatNotes(database, trial.lane, author=trial.name, person=trial.person)
    context = ToolContext(
        trial.lane.key, trial.name, trial.person, key, notes, _EmptyHistory(), lambda: datetime.now(UTC), key
    )
    call = ToolCall(key, trial.tool.name, json.dumps(arguments, ensure_ascii=False))
    began = time.monotonic()
    result = await Toolbox([trial.tool]).run(call, arguments, context)
    return TrialResult(trial.tool.name, call.arguments, result, time.monotonic() - began)


def format_trial_result(trial_result: TrialResult) -> list[str]:
    """Call, time, size and result, a line each; the result is a stranger's."""
    took = f"{trial_result.result.outcome} after {1000 * trial_result.seconds:,.0f} ms, {trial_result.size:,} characters:"
    return [f"{trial_result.name} {trial_result.arguments}", took, *trial_result.result.text.splitlines()]


async def record_trial(tx: Transaction, actor: Actor, trial_result: TrialResult, *, now: float) -> None:
    """Write down that it was run, and what came of it, without its result."""
    came: Mapping[str, Any] = {
        "arguments": mask_secrets(trial_result.arguments),
        "outcome": trial_result.result.outcome,
        "characters": trial_result.size,
        "milliseconds": round(1000 * trial_result.seconds),
    }
    await audit.record(tx, actor, "tried", f"tool {trial_result.name}", change=(None, came), now=now)
