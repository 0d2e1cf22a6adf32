"""Sources of hundreds of tools: what takes long runs in threads, and no transaction waits for it."""

import contextlib
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any

from bot.db import revisions
from bot.db.engine import Database
from bot.db.tools import sources, tools
from bot.db.tools.grants import Grant, give
from bot.db.tools.sources import Source
from bot.db.tools.tools import StoredTool
from bot.db.transaction import Transaction
from bot.tool_registry.add_source import register_source
from bot.tool_registry.loader import RegistryLoader, ToolSettings
from bot.tool_registry.previews import build_preview
from bot.tool_registry.registry import ToolRegistry
from tests.support.registered_tools import ADA, BUILTIN_TOOLS, RegisteredToolsHarness
from tools.base import hash_definition
from tools.http.routes import build_endpoint_route
from tools.http.tools import make_route_tool
from tools.registry import build_definition
from tools.safety.injection import find_injection_warnings
from tools.schemas.told_schema import build_told_schema

COUNT = 120
FEW = COUNT // 4
SLOW_FUNCTIONS = (
    make_route_tool,
    build_told_schema,
    build_definition,
    hash_definition,
    find_injection_warnings,
)
SCHEMA = {
    "type": "object",
    "properties": {"place": {"type": "string", "description": "Where."}},
    "required": ["place"],
}


class CallCount:
    """How often slow functions were called, on the event loop's thread and on all."""

    def __init__(self) -> None:
        self.on_loop: Counter[str] = Counter()
        self.anywhere: Counter[str] = Counter()


@contextlib.contextmanager
def count_slow_calls() -> Iterator[CallCount]:
    """Count the calls of slow functions while the block runs."""
    codes: set[CodeType] = {function.__code__ for function in SLOW_FUNCTIONS}
    loop_thread = threading.get_ident()
    count = CallCount()

    def record(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code in codes:
            count.anywhere[frame.f_code.co_name] += 1
            if threading.get_ident() == loop_thread:
                count.on_loop[frame.f_code.co_name] += 1

    sys.setprofile(record)
    threading.setprofile(record)
    try:
        yield count
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def build_source(count: int = COUNT) -> Source:
    routes = [
        build_endpoint_route(
            f"shop_{number}",
            f"Show part {number}.",
            "GET",
            f"https://shop.example/{number}/{{place}}",
            SCHEMA,
        ).as_json()
        for number in range(count)
    ]
    return Source("shop", "endpoint", "https://shop.example", {"routes": routes, "hosts": ["shop.example"]})


def build_registry(database: Database) -> ToolRegistry:
    return ToolRegistry(database, BUILTIN_TOOLS.values(), lambda person: person == ADA.person)


async def add_source(database: Database, source: Source) -> None:
    preview = await build_preview(source, frozenset(), ())
    async with RegisteredToolsHarness(database).open_action() as action:
        await register_source(action, preview)


async def grant_to_everyone(database: Database, registry: ToolRegistry) -> None:
    async with database.transaction() as tx:
        row = await tools.find(tx, "shop_1")
        assert row is not None
        await give(tx, Grant("shop_1", "everyone", 0, row.hash))
        await revisions.bump(tx, revisions.TOOLS)
    await registry.refresh()


async def test_a_refresh_builds_no_tool_anew_and_nothing_slow_on_the_event_loop(database: Database):
    await add_source(database, build_source())
    registry = build_registry(database)
    with count_slow_calls() as at_load:
        await registry.load()
    assert at_load.anywhere["make_route_tool"] == COUNT
    assert at_load.on_loop.total() < FEW
    before = registry.tools["shop_7"]
    with count_slow_calls() as at_refresh:
        await grant_to_everyone(database, registry)
    assert registry.can_use("shop_1", 8, 8)
    assert registry.tools["shop_7"] is before
    assert at_refresh.anywhere["make_route_tool"] == at_refresh.anywhere["build_told_schema"] == 0
    assert at_refresh.on_loop.total() < FEW


async def test_only_what_changed_in_a_source_is_built_again(database: Database):
    await add_source(database, build_source())
    registry = build_registry(database)
    await registry.load()
    async with database.transaction() as tx:
        stored = await sources.find(tx, "shop")
        assert stored is not None
        routes = [*stored.options["routes"]]
        routes[3] = {**routes[3], "description": "Show another part."}
        await sources.put(tx, replace(stored, options={**stored.options, "routes": routes}))
    with count_slow_calls() as count:
        await registry.refresh()
    assert count.anywhere["make_route_tool"] == 1
    assert registry.is_unavailable("shop_3")
    assert not registry.is_unavailable("shop_4")


async def test_adding_and_finding_hundreds_of_new_tools_is_slow_in_threads_only(database: Database):
    source = build_source()
    with count_slow_calls() as count:
        await add_source(database, source)
    assert count.anywhere["find_injection_warnings"] == COUNT
    assert count.on_loop.total() == 0
    async with database.transaction() as tx:
        await tools.remove(tx, [f"shop_{number}" for number in range(COUNT)])
        await sources.put(tx, source)
    registry = build_registry(database)
    with count_slow_calls() as count:
        await registry.load()
    assert count.anywhere["find_injection_warnings"] == COUNT
    assert count.on_loop.total() < FEW


class InterruptedDatabase:
    """A database in which another process changes something just before the first write."""

    def __init__(self, database: Database, interrupt: Callable[[Transaction], Any]) -> None:
        self._database = database
        self._interrupt: Callable[[Transaction], Any] | None = interrupt
        self.read_transaction = database.read_transaction

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        interrupt, self._interrupt = self._interrupt, None
        if interrupt is not None:
            async with self._database.transaction() as tx:
                await interrupt(tx)
        async with self._database.transaction() as tx:
            yield tx


async def test_what_others_change_while_tools_are_built_is_kept(database: Database):
    async with database.transaction() as tx:
        await sources.put(tx, build_source(2))

    async def disable(tx: Transaction) -> None:
        await tools.put(tx, StoredTool("shop_0", "shop", enabled=False))
        await revisions.bump(tx, revisions.TOOLS)

    interrupted: Any = InterruptedDatabase(database, disable)
    loader = RegistryLoader(interrupted, (), ToolSettings(), None)
    await loader.refresh()
    async with database.read_transaction() as tx:
        row = await tools.find(tx, "shop_0")
    assert row is not None
    assert not row.enabled
    assert row.pending is not None
