"""What typed reads gain at a real endpoint over words alone, for `bench tools`, `thinking` and `recall`.

Prints nothing. What is measured can be stored where the gateway looks for it; of a simulated model it is not.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from bot.bench.endpoint.run import EndpointAddress, open_target
from bot.bench.harness.statistics import median
from bot.errors import QuestionRefused
from bot.llm.client import ModelClient
from bot.llm.read_gains import CLEAR, GAINS_FILE, READ_SECONDS, ReadGain, ReadUse, store_gain
from bot.llm.seats import SeatLimiter
from bot.llm.typed_reads import TypedQuestions, TypedReader, TypedReading
from bot.sim.vllm.server import SimulatedEndpoint
from bot.tables import Line, TextTable

BINS = 5  # of the calibration, from 0 to 1


class ReadOutcome(NamedTuple):
    """Whether the reading is right; and what it rests on: each chance, with whether that was true."""

    is_right: bool
    chances: Sequence[tuple[float, bool]]


@dataclass(frozen=True, slots=True)
class ReadCase:
    """What is read of a labelled case, whether words alone are right, and what judges the reading."""

    questions: TypedQuestions
    state: str
    is_right_by_words: bool
    judge: Callable[[TypedReading], ReadOutcome]


@dataclass(frozen=True, slots=True)
class _JudgedRead:
    case: ReadCase
    outcome: ReadOutcome | None
    seconds: float


async def measure_reads(
    address: EndpointAddress,
    use: ReadUse,
    cases: Iterable[ReadCase],
    folder: Path | None,
    endpoint: SimulatedEndpoint | None = None,
) -> list[Line]:
    """Read all cases, and store the gain in `folder`; tests pass the simulated `endpoint`.

    The endpoint is looked for before the first case is built, which may take long.

    Raises QuestionRefused if the endpoint cannot read so or there are no cases.
    """
    async with open_target(address, endpoint) as (target, simulation_notice):
        client = ModelClient(target.url, target.model, SeatLimiter(1), api_key=target.api_key)
        try:
            await client.open_connection()
            reads = [read async for read in _read_all(TypedReader(client), cases)]
        finally:
            await client.close()
    if not reads:
        raise QuestionRefused(f"{address.url} has no typed reads, or no case is in doubt.")
    judged = [(read.case.is_right_by_words, read.outcome.is_right) for read in reads if read.outcome]
    gain = ReadGain(target.model, len(reads), judged.count((False, True)), judged.count((True, False)))
    lines = [*_format_lines(gain, reads), simulation_notice or ""]
    if folder is not None and simulation_notice is None:
        store_gain(folder, use, gain)
        lines.append(f"stored: {folder / GAINS_FILE}; the gateway reads it when it starts")
    return lines


async def _read_all(reader: TypedReader, cases: Iterable[ReadCase]) -> AsyncIterator[_JudgedRead]:
    """Read one case after the other, until the endpoint says that it cannot."""
    for case in cases:
        began_at = monotonic()
        reading = await reader.read(case.questions, case.state)
        if reader.is_supported is False:
            return
        yield _JudgedRead(case, case.judge(reading) if reading else None, monotonic() - began_at)


def _format_lines(gain: ReadGain, reads: Sequence[_JudgedRead]) -> Iterator[Line]:
    chances = [pair for read in reads if read.outcome for pair in read.outcome.chances]
    yield TextTable("", ("chance read", "answers", "true"), list(_format_calibration(chances)))
    yield ""
    by_words = sum(read.case.is_right_by_words for read in reads)
    right = by_words + gain.gained - gain.lost
    yield f"right of {gain.cases}: {by_words} by words, {right} with reads (+{gain.gained} −{gain.lost})"
    yield f"the gain: {gain.clearness:+.1f} standard deviations of chance; it counts from {CLEAR:g}"
    late = sum(read.seconds > READ_SECONDS for read in reads)
    unread = sum(read.outcome is None for read in reads)
    seconds = median(read.seconds for read in reads) or 0.0
    yield f"a read: {seconds:.2f} s in the middle; {late} over {READ_SECONDS:g} s, {unread} without an answer"
    yield f"model: {gain.model}"


def _format_calibration(chances: Sequence[tuple[float, bool]]) -> Iterator[tuple[str, ...]]:
    """A row for each part of the chances: where a model is calibrated, that share of them is true."""
    for number in range(BINS):
        found = [is_true for chance, is_true in chances if min(int(chance * BINS), BINS - 1) == number]
        share = f"{sum(found) / len(found):.0%}" if found else "-"
        yield f"{number / BINS:.0%} to {(number + 1) / BINS:.0%}", str(len(found)), share
