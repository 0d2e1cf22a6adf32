"""A turn's text is judged outside the write transaction that opens it."""

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from bot.agent.tool_matching.index import ToolIndex, build_index
from bot.db.database_url import parse_database_path
from bot.db.engine import Database
from bot.db.tables import turns
from bot.tool_registry.registry import ToolRegistry
from bot.tool_registry.toolbox import Toolbox
from tests.support.turn_harness import LANE, ScriptedModel, TurnHarness, make_reply
from tools.base import Tool, tool

TEXT = "Search the web for two hotels, then book both."


@tool
async def search(query: str) -> str:
    """Search the web for pages about a topic.

    Args:
        query: What to look for.
    """
    return query


class WatchedToolbox(Toolbox):
    """Calls `on_match` whenever a text is matched against its tools."""

    def __init__(self, offered_tools: Sequence[Tool], on_match: Callable[[], None]) -> None:
        super().__init__(offered_tools)
        self._on_match = on_match

    @property
    def tool_index(self) -> ToolIndex:
        self._on_match()
        return build_index(self.tools.values())


class WatchedRegistry(ToolRegistry):
    """A registry whose conversations all have the same toolbox."""

    def __init__(self, database: Database, toolbox: WatchedToolbox) -> None:
        super().__init__(database, tuple(toolbox.tools.values()), lambda person: False)
        self._toolbox = toolbox

    def build_conversation_toolbox(self, *_: object, **__: object) -> Toolbox:
        return self._toolbox


@dataclass
class WatchedHarness(TurnHarness):
    """Runs turns whose texts are matched against watched tools."""

    toolbox: WatchedToolbox = field(kw_only=True)

    @property
    def tool_registry(self) -> ToolRegistry:
        return WatchedRegistry(self.database, self.toolbox)


@pytest.mark.sqlite
async def test_others_can_write_while_a_text_is_judged(database: Database, database_url: str):
    could_write = []

    def try_to_write() -> None:
        with _open_beside(database_url) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                could_write.append(False)
            else:
                could_write.append(True)

    model = ScriptedModel([make_reply("ok"), make_reply("ok")])
    toolbox = WatchedToolbox([search], try_to_write)
    harness = WatchedHarness(database, model, toolbox=toolbox, thinking="auto")
    for text in (TEXT, "thanks"):
        await harness.build_runner().run(await harness.new_request(text))
    assert could_write == [True, True]


@pytest.mark.sqlite
async def test_a_turn_is_judged_again_if_its_conversation_changes_meanwhile(
    database: Database, database_url: str
):
    is_set = False

    def set_thinking() -> None:
        nonlocal is_set
        if not is_set:
            with _open_beside(database_url) as connection:
                connection.execute("INSERT INTO lanes (lane, think) VALUES (?, 'on')", (LANE.key,))
        is_set = True

    model = ScriptedModel([make_reply("ok")])
    harness = WatchedHarness(database, model, toolbox=WatchedToolbox([search], set_thinking), thinking="auto")
    await harness.build_runner().run(await harness.new_request("hello"))
    [request] = model.requests
    assert request.thinking
    assert await harness.load_rows(turns, "thinking") == [(True,)]


def _open_beside(database_url: str) -> contextlib.closing[sqlite3.Connection]:
    """Another program's connection to the database, which waits for no lock."""
    file = parse_database_path(database_url)
    return contextlib.closing(sqlite3.connect(file, timeout=0, isolation_level=None))
