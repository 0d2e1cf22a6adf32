"""Runs a tool once for an admin, outside any turn, and records the run.

Grants are ignored, the tool's own limits hold.
"""

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from bot.agent import history
from bot.db.conversations.notes import ChatNotes
from bot.db.engine import Database
from bot.db.tools import audit
from bot.db.tools.audit import Actor
from bot.db.transaction import Transaction
from bot.domain import Lane, ToolCall, ToolResult
from bot.errors import ChangeRefused
from bot.tool_registry.secret_scanner import mask_secrets, mask_words
from bot.tool_registry.toolbox import Toolbox
from bot.translations.formats import format_number
from bot.translations.translator import Translator, defer, translatable
from bot.usage.refusals import describe_tool_outcome
from tools.base import Passage, Tool, ToolContext, ToolError
from tools.results import to_found

ARGUMENTS_HELP = translatable('Arguments are JSON, such as {"city": "Rome"}')


@dataclass(frozen=True, slots=True)
class Trial:
    """A tool to run, with arguments as JSON, for a person in a lane (its notes are those of the chat)."""

    tool: Tool
    arguments: str
    person: int
    name: str
    lane: Lane


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The result of a trial and its seconds; `arguments` are those it really ran with.

    `unreduced_size` is that of the result before an admin's reduction; None: there is no reduction, or no
    result.
    """

    name: str
    arguments: str
    result: ToolResult
    seconds: float
    unreduced_size: int | None = None

    @property
    def size(self) -> int:
        """Characters of the whole result."""
        if self.result.full_length is not None:
            return self.result.full_length
        return len(self.result.text)


class _EmptyHistory:
    """A trial has no conversation."""

    async def find(self, words: str) -> list[Passage]:
        return []

    async def result(self, number: int) -> str | None:
        return None


def parse_arguments(tool: Tool, arguments: str) -> dict[str, Any]:
    """Return the arguments as the tool will get them. Raises ChangeRefused with what is wrong with them."""
    from tools.arguments import check_arguments

    try:
        parsed = json.loads(arguments or "{}")
    except (ValueError, RecursionError) as error:
        raise ChangeRefused(
            "{help}; I can't read this: {error}.", help=defer(ARGUMENTS_HELP), error=str(error)[:100]
        ) from None
    try:
        return check_arguments(tool, parsed)
    except ToolError as error:
        raise ChangeRefused(str(error)) from None


async def run_trial(database: Database, trial: Trial) -> TrialResult:
    """Run a tool once. Raises ChangeRefused when the arguments do not fit."""
    arguments = parse_arguments(trial.tool, trial.arguments)
    key = uuid.uuid4().hex
    notes = ChatNotes(database, trial.lane, author=trial.name, person=trial.person)
    context = ToolContext(
        trial.lane.key, trial.name, trial.person, key, notes, _EmptyHistory(), _find_time, key
    )
    call = ToolCall(key, trial.tool.name, json.dumps(arguments, ensure_ascii=False))
    sizes: list[int] = []

    async def run_and_measure(arguments: Mapping[str, Any], context: ToolContext) -> object:
        found = to_found(await trial.tool.function(arguments, context))
        sizes.append(len(found.text))
        return found

    measured_tool = replace(trial.tool, function=run_and_measure)
    started_at = time.monotonic()
    result = await Toolbox([measured_tool]).run(call, arguments, context)
    seconds = time.monotonic() - started_at
    unreduced_size = sizes[0] if sizes and trial.tool.reduction else None
    return TrialResult(trial.tool.name, call.arguments, result, seconds, unreduced_size)


async def _find_time() -> datetime:
    return datetime.now(UTC)


def format_trial_result(translate: Translator, trial_result: TrialResult) -> list[str]:
    """Format call, time, size and result, a line each; the result is a stranger's text."""
    result = trial_result.result
    lines = [
        f"{trial_result.name} {trial_result.arguments}",
        translate(
            "{outcome} after {milliseconds} ms, {count} characters, about {tokens} tokens:",
            outcome=describe_tool_outcome(result.outcome, None, translate),
            milliseconds=format_number(translate, 1000 * trial_result.seconds),
            count=format_number(translate, trial_result.size),
            tokens=_estimate_tokens(translate, trial_result.size),
        ),
    ]
    if trial_result.unreduced_size is not None:
        lines.insert(
            1,
            translate(
                "Before its reduction: {count} characters, about {tokens} tokens.",
                count=format_number(translate, trial_result.unreduced_size),
                tokens=_estimate_tokens(translate, trial_result.unreduced_size),
            ),
        )
    return [
        *lines,
        *result.text.splitlines(),
        *mask_words(result.failure).splitlines(),  # for the author of the tool; the model does not read it
    ]


def _estimate_tokens(translate: Translator, size: int) -> str:
    return format_number(translate, size // history.BYTES_PER_TOKEN)


async def record_trial(tx: Transaction, actor: Actor, trial_result: TrialResult, *, now: float) -> None:
    """Record in the audit that a tool was run and how it ended, without its result."""
    details: Mapping[str, Any] = {
        "arguments": mask_secrets(trial_result.arguments),
        "outcome": trial_result.result.outcome,
        "characters": trial_result.size,
        "milliseconds": round(1000 * trial_result.seconds),
    }
    await audit.record(tx, actor, "tried", f"tool {trial_result.name}", change=(None, details), now=now)
