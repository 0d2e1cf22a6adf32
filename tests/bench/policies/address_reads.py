"""`bench addressing`: how well an endpoint tells which messages of a group are meant for the assistant.

Each labelled message is read once, as in a group where that is turned on. Builds the report and its text.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from bot.bench.endpoint.client import BenchTarget
from bot.bench.endpoint.run import EndpointAddress, open_target
from bot.bench.harness import machine
from bot.bench.harness.gateway_process import BenchFailed
from bot.bench.harness.statistics import median
from bot.errors import QuestionRefused
from bot.llm.address_question import ADDRESS, MIN_CHANCE, GroupMessage, describe_message
from bot.llm.client import ModelClient
from bot.llm.seats import SeatLimiter
from bot.llm.typed_reads import TypedReader
from bot.tables import Line, TextTable
from tests.support.endpoint.server import ScriptedEndpoint

CASES_FILE = "cases.jsonl"
NAMES = ("Canvas", "@canvas_bot")
TOGETHER = "together"
REAL_READS = "one read of each message, no two at a time"
SIMULATED_READS = (
    "simulated: by words that question and message share. No weights were asked, and these figures say "
    "nothing about a model"
)
_TITLES = ("messages", "n", "meant", "precision", "recall", "no reading")


@dataclass(frozen=True, slots=True)
class AddressCase:
    """A labelled message; it is counted in its language and its kind."""

    language: str
    is_meant: bool
    kind: str
    message: GroupMessage


@dataclass(frozen=True, slots=True)
class ReadCase:
    """A case, the chance that the endpoint gave (None: no reading), and how long that took."""

    case: AddressCase
    chance: float | None
    seconds: float = 0.0

    @property
    def is_answered(self) -> bool:
        """Whether the gateway would answer the message."""
        return self.chance is not None and self.chance >= MIN_CHANCE


@dataclass(frozen=True, slots=True)
class AddressScore:
    """How well the cases of a group were told apart; shares are None where nothing is divided.

    `precision`: the share of meant ones among those answered; `recall`: of answered ones among the meant.
    """

    group: str
    cases: int
    meant: int
    precision: float | None
    recall: float | None
    unread: int


@dataclass(frozen=True, slots=True)
class AddressReport:
    """Scores by language, by kind, and of all together; with the conditions."""

    scores: tuple[AddressScore, ...]
    conditions: tuple[tuple[str, str], ...]


async def run_addressing(
    address: EndpointAddress,
    folder: Path,
    endpoint: ScriptedEndpoint | None = None,
) -> AddressReport:
    """Read all cases of a folder at an endpoint; tests pass the simulated one.

    Raises QuestionRefused if the endpoint cannot read so, and BenchFailed for invalid cases.
    """
    cases = read_cases(folder / CASES_FILE)
    async with open_target(address, endpoint) as (target, simulation_notice):
        rows = [row async for row in _read_all(target, cases)]
    if len(rows) < len(cases):
        raise QuestionRefused(f"{address.url} has no typed reads; vLLM 0.33 has.")
    seconds = median([row.seconds for row in rows]) or 0.0
    conditions = (
        ("endpoint", f"{address.url}, {target.model}"),
        ("reads", REAL_READS if simulation_notice is None else SIMULATED_READS),
        ("answered", f"from a chance of {MIN_CHANCE:g}; without a reading, silence"),
        ("seconds", f"{seconds:.2f} a read in the middle"),
        ("load", machine.describe_load()),
    )
    return AddressReport(tuple(score_groups(rows)), conditions)


async def _read_all(target: BenchTarget, cases: Sequence[AddressCase]) -> AsyncIterator[ReadCase]:
    """Read one case after the other, until the endpoint says that it cannot."""
    client = ModelClient(target.url, target.model, SeatLimiter(1), api_key=target.api_key)
    reader = TypedReader(client)
    try:
        for case in cases:
            began_at = monotonic()
            reading = await reader.read((ADDRESS,), describe_message(case.message))
            if reader.is_supported is False:
                return
            yield ReadCase(case, reading.find_chance(ADDRESS) if reading else None, monotonic() - began_at)
    finally:
        await client.close()


def read_cases(path: Path) -> list[AddressCase]:
    """The cases of a file: JSON, one a line.

    Each has lang, meant, kind, speaker, text, and perhaps before and quoted. Raises BenchFailed, naming the
    file, for an invalid one.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [_parse_case(json.loads(line)) for line in lines if line.strip()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchFailed(f"{path} does not hold cases: {type(error).__name__}: {error}") from error


def _parse_case(row: Mapping[str, Any]) -> AddressCase:
    said_before = tuple(row.get("before", ()))
    message = GroupMessage(row["speaker"], row["text"], NAMES, said_before, row.get("quoted", ""))
    return AddressCase(row["lang"], bool(row["meant"]), row["kind"], message)


def score_groups(rows: Sequence[ReadCase]) -> Iterator[AddressScore]:
    """Score the cases of each language and of each kind, then all of them."""
    for language in sorted({row.case.language for row in rows}):
        yield score_group(language, [row for row in rows if row.case.language == language])
    for kind in sorted({row.case.kind for row in rows}):
        yield score_group(kind, [row for row in rows if row.case.kind == kind])
    yield score_group(TOGETHER, rows)


def score_group(group: str, rows: Sequence[ReadCase]) -> AddressScore:
    """Score some cases."""
    meant = sum(row.case.is_meant for row in rows)
    answered = sum(row.is_answered for row in rows)
    right = sum(row.is_answered and row.case.is_meant for row in rows)
    return AddressScore(
        group,
        len(rows),
        meant,
        right / answered if answered else None,
        right / meant if meant else None,
        sum(row.chance is None for row in rows),
    )


def format_lines(report: AddressReport) -> Iterator[Line]:
    """The table, and below it the conditions."""
    rows = [
        (
            score.group,
            str(score.cases),
            str(score.meant),
            _format_percent(score.precision),
            _format_percent(score.recall),
            str(score.unread),
        )
        for score in report.scores
    ]
    yield TextTable("", _TITLES, rows)
    yield ""
    for name, text in report.conditions:
        yield f"{name}: {text}"


def format_json(report: AddressReport) -> str:
    """The same for machines."""
    return json.dumps({**asdict(report), "conditions": dict(report.conditions)}, indent=1, ensure_ascii=False)


def _format_percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
