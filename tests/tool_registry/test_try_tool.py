"""A tool is tried with checked arguments and within its own limits, and the trial is recorded."""

import asyncio
import re

import pytest

from bot.db.engine import Database
from bot.db.tools import audit
from bot.domain import Lane
from bot.errors import ChangeRefused
from bot.tool_registry.try_tool import Trial, format_trial_result, record_trial, run_trial
from bot.translations.translator import ENGLISH
from tests.support.registered_tools import ADA, NOW
from tools.base import Tool, ToolContext, tool
from tools.builtin.look_back import look_back
from tools.builtin.notes import recall, remember


@tool
async def greet(name: str, context: ToolContext, token: str = "") -> str:
    """Greet somebody.

    Args:
        name: Whom.
        token: A secret.
    """
    return f"{context.person} greets {name}"


@tool(timeout=0.01)
async def sleep() -> str:
    """Sleep."""
    await asyncio.Event().wait()
    raise AssertionError


def build_trial(tool: Tool, arguments: str = "") -> Trial:
    return Trial(tool, arguments, 7, "Ada", Lane(7))


async def test_a_trial_is_recorded_without_its_result_or_secrets(database: Database):
    trial_result = await run_trial(
        database, build_trial(greet, '{"name": "Bob", "token": "sk-abcdefghijklmnop"}')
    )
    assert (trial_result.result.outcome, trial_result.result.text, trial_result.size) == (
        "ok",
        "Ada greets Bob",
        14,
    )
    async with database.transaction() as tx:
        await record_trial(tx, ADA, trial_result, now=NOW)
        (change,) = await audit.list_entries(tx)
    assert (change.what, change.subject, change.after["outcome"]) == ("tried", "tool greet", "ok")
    assert "[hidden]" in change.after["arguments"]
    assert "greets" not in str(change)


@tool
async def fail(key: str) -> str:
    """Fail.

    Args:
        key: Which.
    """
    raise KeyError(key)


async def test_the_author_of_a_tool_reads_its_error_and_line_without_secrets(database: Database):
    shown = []
    for key in ("city", "sk-abcdefghijklmnop"):
        trial_result = await run_trial(database, build_trial(fail, f'{{"key": "{key}"}}'))
        assert trial_result.result.text == "fail failed unexpectedly."
        shown.append(format_trial_result(ENGLISH, trial_result)[-1])
    assert re.fullmatch(r"KeyError: 'city' \(test_try_tool\.py, line \d+, in fail\)", shown[0])
    assert shown[1].startswith("KeyError: [hidden] (test_try_tool.py")


async def test_a_tool_that_hangs_is_stopped(database: Database):
    trial_result = await run_trial(database, build_trial(sleep))
    assert trial_result.result.outcome == "timeout"


@pytest.mark.parametrize("arguments", ["{", "[]", '{"name": []}', "[" * 100_000])
async def test_arguments_that_do_not_fit_are_refused(database: Database, arguments: str):
    with pytest.raises(ChangeRefused):
        await run_trial(database, build_trial(greet, arguments))


async def test_notes_are_those_of_the_chat_and_its_history_is_empty(database: Database):
    await run_trial(database, build_trial(remember, '{"note": "milk"}'))
    assert "milk" in (await run_trial(database, build_trial(recall))).result.text
    assert (await run_trial(database, build_trial(look_back, '{"words": "milk"}'))).result.outcome == "ok"
