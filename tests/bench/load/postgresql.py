"""`bench postgresql`: replies on PostgreSQL beside replies on SQLite, and several replicas beside one.

Owns the server, unless it is given a database.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.bench.endpoint.direct import run_until_stopped
from bot.bench.harness import machine
from bot.bench.harness.statistics import percentile
from bot.db.engine import open_database
from bot.db.migrate import migrate
from bot.errors import QuestionRefused
from tests.bench.harness import disk
from tests.bench.harness.figures import FigureRow, LoadReport, limit_to, merge_runs
from tests.bench.harness.postgresql_process import PostgresProcess
from tests.bench.harness.stage import AnswerTimes, Stage, open_stage
from tests.bench.harness.workload import ProseBrain
from tests.bench.load import replicas
from tests.bench.load.latency import CHATS, ask_in_a_row
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.machine import describe_machine

PrintLine = Callable[[str], None]

PAIR_MESSAGES = 25  # on each of the two: some two seconds; the load of a machine changes slower than that
MAX_P50_FACTOR = 2.5
MAX_CPU_FACTOR = 1.3
SECTIONS = ("pairs", "foreign", "replicas")
_SHOWN_SETTINGS = ("server_version", "fsync", "synchronous_commit", "shared_buffers")

SECTION_NOTES = (
    (
        "pairs",
        f"two gateways, {PAIR_MESSAGES} replies in a row on each, there and back again; ratios are taken "
        "within a pair: the median (lowest–highest) of the pairs. Processor time is told apart: the "
        "gateway's process, and all processes of the server",
    ),
    ("foreign", "two replicas; a chat is foreign if the replica that polls does not hold it"),
    (
        "replicas",
        "chats that write as soon as they are answered, without limits on calls to Telegram; the simulators "
        "and the server take processor time of the same machine",
    ),
)


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """What to measure.

    `messages`: on each database, and of each kind of chat.
    `rounds`: of one replica and of several.
    `seconds`: in which turns are counted in a round.
    `replica_count`: how many processes are compared with one.
    `database_url`: of an empty database; None: a server is started.
    """

    messages: int = 500
    rounds: int = 3
    seconds: float = 10.0
    replica_count: int = 3
    database_url: str | None = None
    only_sections: tuple[str, ...] = ()
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class MeasuredServer:
    """The database that is measured, and the server's process if it is the bench's own."""

    url: str
    process: PostgresProcess | None

    def read_cpu_seconds(self) -> float | None:
        """Seconds of processor time of the server so far; None of one that was given."""
        return None if self.process is None else self.process.read_cpu_seconds()


@dataclass(frozen=True, slots=True)
class ReplySlice:
    """Replies in a row, with the processor time of the gateway and of the server meanwhile."""

    times: Sequence[AnswerTimes]
    gateway_seconds: float
    server_seconds: float | None

    def find_percentile(self, fraction: float) -> float:
        """Own time in milliseconds."""
        return 1000 * (percentile([answer.own_seconds for answer in self.times], fraction) or 0.0)

    @property
    def gateway_milliseconds(self) -> float:
        """The gateway's processor time a reply."""
        return 1000 * self.gateway_seconds / len(self.times)


async def run_postgresql(options: PostgresOptions, print_line: PrintLine, stop: asyncio.Event) -> LoadReport:
    """Measure until `stop` is set. Raises BenchFailed, QuestionRefused."""
    unknown = [name for name in options.only_sections if name not in SECTIONS]
    if unknown:
        raise QuestionRefused(f"There is no section {unknown[0]}; there are {', '.join(SECTIONS)}.")
    rows: list[FigureRow] = []
    with tempfile.TemporaryDirectory(prefix="canvasgram-bench-", dir=options.folder) as temporary_folder:
        folder = Path(temporary_folder)
        async with provide_server(options) as server:
            conditions = [
                *describe_machine(),
                *disk.describe_database(folder),
                ("server", await _describe_server(server.url)),
                ("load before", machine.describe_load()),
            ]
            is_complete = await run_until_stopped(
                stop, _measure_sections(options, server, folder, print_line, rows)
            )
    conditions += [("load after", machine.describe_load()), *SECTION_NOTES]
    return LoadReport(merge_runs(rows), tuple(conditions), is_complete)


@contextlib.asynccontextmanager
async def provide_server(options: PostgresOptions) -> AsyncIterator[MeasuredServer]:
    """A migrated database: the given one, or one on a server that runs until the block ends."""
    if options.database_url is not None:
        _refuse_used(options.database_url)
        migrate(options.database_url)
        yield MeasuredServer(options.database_url, None)
        return
    # The path of a socket is bounded, and the server's user must be able to enter the folder.
    with tempfile.TemporaryDirectory(prefix="pg-", dir=options.folder) as folder:
        process = PostgresProcess(Path(folder))
        process.initialize()
        process.start()
        try:
            migrate(process.build_url())
            yield MeasuredServer(process.build_url(), process)
        finally:
            process.stop()


def _refuse_used(url: str) -> None:
    from bot.db.postgresql.migrate import read_server_revision  # its driver may not be installed

    if read_server_revision(url) is not None:
        raise QuestionRefused(
            "The database of --database-url is in use. The bench writes into it: name an empty one."
        )


async def _describe_server(url: str) -> str:
    async with open_database(url) as database, database.read_transaction() as tx:
        values = [(await tx.exec_driver_sql(f"SHOW {name}")).scalar_one() for name in _SHOWN_SETTINGS]
        address = (await tx.exec_driver_sql("SELECT inet_server_addr()")).scalar_one()
    shown = ", ".join(f"{name} {value}" for name, value in zip(_SHOWN_SETTINGS, values, strict=True))
    return f"{shown}, over {'a socket' if address is None else 'TCP'}"


async def _measure_sections(
    options: PostgresOptions,
    server: MeasuredServer,
    folder: Path,
    print_line: PrintLine,
    rows: list[FigureRow],
) -> None:
    sections = {
        "pairs": lambda: measure_pairs(server, folder, options.messages),
        "foreign": lambda: replicas.measure_foreign(server.url, folder, options.messages),
        "replicas": lambda: replicas.measure_replicas(
            server.url, folder, options.seconds, options.rounds, options.replica_count
        ),
    }
    for name in options.only_sections or SECTIONS:
        print_line(f"measuring: {name}")
        rows += await sections[name]()


async def measure_pairs(server: MeasuredServer, folder: Path, messages: int) -> list[FigureRow]:
    """Rows of own time and processor time, one of each for each pair of slices."""
    slice_messages = min(messages, PAIR_MESSAGES)
    settings = {"DATABASE_URL": server.url}
    rows: list[FigureRow] = []
    async with (
        open_stage("ours", folder / "sqlite", _build_endpoint()) as sqlite,
        open_stage("ours", folder / "server", _build_endpoint(), settings=settings) as postgresql,
    ):
        for stage in (sqlite, postgresql):
            await stage.start()
            await ask_in_a_row(stage, range(min(CHATS, messages)))
        for pair in range(max(1, messages // PAIR_MESSAGES)):
            numbers = range(CHATS + pair * slice_messages, CHATS + (pair + 1) * slice_messages)
            slices: dict[Stage, ReplySlice] = {}
            # SQLite, PostgreSQL, PostgreSQL, SQLite: drift of the machine affects both alike.
            for stage in (sqlite, postgresql) if pair % 2 == 0 else (postgresql, sqlite):
                slices[stage] = await _ask(stage, server, numbers)
            rows += build_rows(slices[sqlite], slices[postgresql])
    return rows


async def _ask(stage: Stage, server: MeasuredServer, numbers: range) -> ReplySlice:
    gateway_before = stage.process.read_cpu_seconds() or 0.0
    server_before = server.read_cpu_seconds()
    times = await ask_in_a_row(stage, numbers)
    server_after = server.read_cpu_seconds()
    server_seconds = None
    if server_before is not None and server_after is not None:
        server_seconds = server_after - server_before
    gateway_seconds = (stage.process.read_cpu_seconds() or 0.0) - gateway_before
    return ReplySlice(times, gateway_seconds, server_seconds)


def build_rows(sqlite: ReplySlice, postgresql: ReplySlice) -> list[FigureRow]:
    """The figures of one pair; those of all pairs have the same keys, and are told by their median."""
    rows: list[FigureRow] = []
    for name, fraction, limit in (("p50", 0.5, limit_to(MAX_P50_FACTOR)), ("p95", 0.95, None)):
        before = sqlite.find_percentile(fraction)
        after = postgresql.find_percentile(fraction)
        rows += [
            FigureRow(f"sqlite_{name}", f"SQLite: own time a reply, {name}", "ms", {"ours": before}),
            FigureRow(f"postgresql_{name}", f"PostgreSQL: own time a reply, {name}", "ms", {"ours": after}),
            FigureRow(
                f"slower_{name}", "PostgreSQL, of SQLite", "x", {"ours": after / before}, limit, digits=2
            ),
        ]
    server_cpu = postgresql.server_seconds
    return [
        *rows,
        _build_cpu_row("sqlite_cpu", "SQLite: processor time a reply", sqlite.gateway_milliseconds),
        _build_cpu_row(
            "postgresql_cpu",
            "PostgreSQL: the gateway's processor time a reply",
            postgresql.gateway_milliseconds,
        ),
        FigureRow(
            "cpu_factor",
            "PostgreSQL, of SQLite",
            "x",
            {"ours": postgresql.gateway_seconds / sqlite.gateway_seconds if sqlite.gateway_seconds else None},
            limit_to(MAX_CPU_FACTOR),
            digits=2,
        ),
        _build_cpu_row(
            "server_cpu",
            "the server's processor time a reply",
            None if server_cpu is None else 1000 * server_cpu / len(postgresql.times),
        ),
    ]


def _build_cpu_row(key: str, label: str, milliseconds: float | None) -> FigureRow:
    return FigureRow(key, label, "ms", {"ours": milliseconds})


def _build_endpoint() -> ScriptedEndpoint:
    return ScriptedEndpoint(brain=ProseBrain())
