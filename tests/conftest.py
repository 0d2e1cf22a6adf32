"""Fixtures for all tests: an empty migrated database. Marks slow folders and modules."""

import contextlib
import functools
import gc
import importlib
import itertools
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from bot.db.engine import Database, open_database
from tests.support.compiled_statements import share_compiled_statements
from tests.support.empty_database import place_empty_database

if TYPE_CHECKING:
    from tests.kill.gateway import ForkServer
    from tests.support.postgresql import PostgresServer

MEMORY_DISK = Path("/dev/shm")
MEMORY_DISK_BYTES = 4 * 2**30  # a run of all tests needs far less
SERVER_PATIENCE = 5  # times as long: each statement is a trip to a server that others hold up as well
TESTS = Path(__file__).parent
SLOW = frozenset(
    TESTS / path
    for path in (
        "admin",
        "agent/test_loop_in_simulator.py",
        "app/test_start.py",
        "attachments/test_office_extraction.py",
        "attachments/test_reader.py",
        "attachments/test_speech.py",
        "attachments/test_transcription.py",
        "bench",
        "browser",
        "chaos/test_short_run.py",
        "check",
        "cli/test_setup.py",
        "cli/test_sign_in.py",
        "cli/test_tools.py",
        "db/test_migration_process.py",
        "db/usage/test_report_sums.py",
        "demo",
        "gateway",
        "jobs/test_scheduler_month.py",
        "kill",
        "llm/test_client.py",
        "llm/test_client_failures.py",
        "llm/test_server_api.py",
        "maintenance/test_restore.py",
        "maintenance/test_retention.py",
        "monitoring/test_health.py",
        "replicas",
        "sim",
        "telegram/delivery",
        "telegram/formatting/test_render_cost.py",
        "telegram/formatting/test_render_documents.py",
        "telegram/formatting/test_render_properties.py",
        "telegram/formatting/test_render_stream.py",
        "telegram/incoming/test_downloads.py",
        "telegram/incoming/test_polling.py",
        "telegram/test_best_effort_calls.py",
        "test_hostile_text.py",
        "telegram/test_bot_identity.py",
        "chat/test_quota.py",
        "telegram/test_reactions.py",
        "tool_registry/test_openapi_sources.py",
        "tool_registry/test_program_homes.py",
        "tools/builtin/test_fetch_page.py",
        "tools/http/test_tools.py",
        "tools/mcp",
        "tools/openapi/test_sandboxed_documents.py",
        "tools/sandbox",
        "training",
        "turns/test_cache_warmup.py",
        "turns/test_context_window.py",
        "turns/test_endpoint_router.py",
        "turns/test_endpoint_router_consent.py",
        "turns/test_history_search.py",
        "turns/test_summaries.py",
        "turns/test_tool_images.py",
        "turns/test_turn_faults.py",
        "usage/test_charts.py",
        "usage/test_reconcile.py",
    )
)
"""Folders and modules that serve HTTP, start processes or write large databases; the others take a minute."""

LONGEST = tuple(
    TESTS / path
    for path in (
        "test_first_commands.py",
        "test_release.py",
        "kill/test_sweep.py",
        "kill/test_forget.py",
        "kill/test_jobs.py",
        "chaos/test_short_run.py",
        "kill/test_system_jobs.py",
        "kill/test_commits.py",
        "kill/test_breakdowns.py",
        "gateway/test_tools_day.py",
        "gateway/test_malformed_documents.py",
        "gateway/test_breakdowns.py",
    )
)
"""Modules whose tests take longest, mostly waiting; at the end they would run on alone."""

# A busy machine is no finding. CI draws the same examples each time: what fails is due to a change.
PATIENT = settings(
    deadline=None,
    derandomize="CI" in os.environ,  # noqa: TID251  # as Hypothesis does by itself
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("all", PATIENT)
settings.register_profile("fast", PATIENT, max_examples=10)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--postgresql", action="store_true", help="give tests a database on PostgreSQL instead of SQLite"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Put the files of tests into memory if there is enough of it: a slow disk is no finding."""
    gc.disable()  # until all is collected: a fifth of the time would go to walking through what only grows
    share_compiled_statements()
    settings.load_profile("fast" if config.getoption("markexpr") == "not slow" else "all")
    if os.access(MEMORY_DISK, os.W_OK | os.X_OK) and shutil.disk_usage(MEMORY_DISK).free > MEMORY_DISK_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY_DISK))  # noqa: TID251  # pytest reads it


@functools.cache  # for each of twenty tests of a module
def is_slow(path: Path) -> bool:
    return not SLOW.isdisjoint((path, *path.parents))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import slow modules for `-m "not slow"`: collecting everything takes half a minute."""
    if config.getoption("markexpr") == "not slow" and is_slow(collection_path):
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Before all tests are collected, import their modules, each worker from another one on.

    In a new clone their assertions are rewritten then, which takes ten seconds: each worker finds most of
    them rewritten by the others.
    """
    worker_input = getattr(session.config, "workerinput", None)
    if worker_input is None or session.config.option.file_or_dir:
        return
    modules = [
        path for path in sorted(TESTS.rglob("test_*.py")) if not pytest_ignore_collect(path, session.config)
    ]
    first = len(modules) * int(worker_input["workerid"].removeprefix("gw")) // worker_input["workercount"]
    for path in (*modules[first:], *modules[:first]):
        with contextlib.suppress(Exception):  # collecting it says what is wrong
            importlib.import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of a slow folder or module as slow; let each worker begin with some of the longest."""
    for item in items:
        if is_slow(item.path):
            item.add_marker(pytest.mark.slow)
        if item.config.getoption("postgresql"):
            _prepare_for_postgresql(item)
    worker_count = os.environ.get("PYTEST_XDIST_WORKER_COUNT")  # noqa: TID251  # pytest-xdist sets it
    if worker_count is not None:
        items[:] = order_for_workers(items, int(worker_count))


def _prepare_for_postgresql(item: pytest.Item) -> None:
    """Skip a test that is about the file of SQLite; give others more time."""
    if item.get_closest_marker("sqlite"):
        item.add_marker(pytest.mark.skip(reason="is about the file of SQLite"))
    limit = item.get_closest_marker("timeout")
    seconds = limit.args[0] if limit is not None else float(item.config.getini("timeout"))
    item.add_marker(pytest.mark.timeout(SERVER_PATIENCE * seconds), append=False)


def order_for_workers(items: list[pytest.Item], worker_count: int) -> list[pytest.Item]:
    """Order tests so that each worker's share, an equal run of them, begins with some of the longest."""
    longest = [item for path in LONGEST for item in items if item.path == path]
    others = iter([item for item in items if item.path not in LONGEST])
    ordered: list[pytest.Item] = []
    for worker in range(worker_count):
        share = longest[worker::worker_count]
        size = (len(items) - len(ordered)) // (worker_count - worker)
        ordered += share
        ordered += itertools.islice(others, max(0, size - len(share)))
    return [*ordered, *others]


def pytest_collection_finish() -> None:
    """Freeze what is imported and collected: every full garbage collection would walk through it."""
    gc.enable()
    gc.freeze()


@pytest.fixture(scope="session")
def fork_server() -> Iterator["ForkServer"]:
    """A process that forks gateways quickly."""
    from tests.kill.gateway import ForkServer

    server = ForkServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator["PostgresServer"]:
    """A server of this process."""
    from tests.support.postgresql import run_server

    with run_server() as server:
        yield server


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A migrated database of its own."""
    if not request.config.getoption("postgresql"):
        yield place_empty_database(tmp_path / "canvasgram.db")
        return
    server: PostgresServer = request.getfixturevalue("postgresql_server")
    with server.open_database() as url:
        yield url


@pytest.fixture(autouse=True)
def place_databases_of_gateways(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """With `--postgresql`, whole gateways have their database there, too: one for each folder."""
    if not request.config.getoption("postgresql"):
        yield
        return
    server: PostgresServer = request.getfixturevalue("postgresql_server")
    with contextlib.ExitStack() as databases:
        open_one = functools.cache(lambda _folder: databases.enter_context(server.open_database()))
        monkeypatch.setattr("tests.support.gateway.place_database", open_one)
        yield


@pytest.fixture
def quick_demos(monkeypatch: pytest.MonkeyPatch, fork_server: "ForkServer") -> None:
    """Demos of this process have a migrated database and a forked gateway.

    Each would else migrate and import for seconds, in processes of its own.
    """
    from bot.demo import environment, gateway_process
    from tests.support.forked_demo import fork_demo_gateway

    fork_server.wait_until_warm()  # before the demo counts the seconds of its start
    monkeypatch.setattr(
        environment, "_place_database", lambda folder: place_empty_database(folder / "demo.db")
    )
    monkeypatch.setattr(gateway_process, "_start_process", lambda: fork_demo_gateway(fork_server))


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with open_database(database_url) as database:
        yield database
