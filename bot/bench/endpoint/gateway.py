"""`bench gateway`: the prompts of `bench direct` as Telegram messages, through a gateway in its own process.

Telegram is simulated, the endpoint is the one that is measured. Where a turn's seconds went is read from its
breakdown.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bot.bench.endpoint.client import MAX_CONCURRENT_CALLS, BenchTarget
from bot.bench.endpoint.direct import THINKING_OFF, EndpointMeasurements, read_counters, subtract_counters
from bot.bench.endpoint.protocols import (
    ANSWER_PROTOCOLS,
    LONG_PROMPTS,
    MAX_ANSWER_TOKENS,
    BenchProtocol,
    ProtocolPrompt,
    select_protocols,
)
from bot.bench.endpoint.result import GatewayDifference, IntervalSeconds, MeasuredCall, MeasuredRow
from bot.bench.harness import gateway_process
from bot.bench.harness.gateway_process import BenchEnvironment, BenchFailed, BenchProcess
from bot.bench.harness.progress import ProgressCallback
from bot.db.engine import Database, open_database
from bot.db.usage import breakdowns, report_sums
from bot.db.usage.turn_steps import TurnSteps, list_accounted_turns
from bot.db.usage.usage_sums import Scope
from bot.sim.telegram.server import BotApi, FloodLimits
from bot.usage.breakdown import TokenCount, TurnBreakdown, build_turn_breakdown
from bot.usage.intervals import INTERVAL_ORDER

FIRST_PERSON_ID = 2000  # each person writes once, into a chat of their own: no answer has a history
POLL_SECONDS = 0.1  # between two reads of the ledger, which holds what is measured
START_SECONDS = 30.0
MODEL_INTERVALS = ("first canvas", "further canvases")

_ANSWERED_ENDINGS = {"answered", "cut"}


@dataclass(frozen=True, slots=True)
class ProtocolTurns:
    """The turns of one protocol and their breakdowns, in order."""

    protocol: BenchProtocol
    turns: tuple[TurnSteps, ...]
    breakdowns: tuple[TurnBreakdown, ...]


async def measure_gateway(
    target: BenchTarget,
    folder: Path,
    measurements: EndpointMeasurements,
    finished: list[ProtocolTurns],
    on_progress: ProgressCallback,
    *,
    quick: bool,
) -> None:
    """Send everything: a row for each protocol into `measurements`, its turns into `finished`.

    A failing endpoint ends it.
    """
    async with _open_gateway(target, folder) as driver:
        on_progress("warming up, gateway", 0, 1)
        await driver.ask([LONG_PROMPTS[0]])
        measurements.call_count += _count_ok_calls(await driver.wait_for_turns(1))
        on_progress("warming up, gateway", 1, 1)
        before = await read_counters(target, measurements)
        for protocol in select_protocols(ANSWER_PROTOCOLS, quick=quick):
            protocol_turns = await _run_protocol(driver, protocol, on_progress)
            finished.append(protocol_turns)
            measurements.call_count += _count_ok_calls(protocol_turns.turns)
            after = await read_counters(target, measurements)
            measurements.rows.append(
                replace(build_row(protocol_turns), counted=subtract_counters(before, after))
            )
            before = after
            measurements.stop_reason = describe_failure(protocol_turns)
            if measurements.stop_reason:
                break


class _GatewayDriver:
    """A running gateway between a simulated Telegram and the endpoint."""

    def __init__(self, api: BotApi, database: Database) -> None:
        self._api = api
        self._database = database
        self._people = itertools.count(FIRST_PERSON_ID)
        self._last_turn_id = 0

    async def ask(self, prompts: Sequence[ProtocolPrompt]) -> None:
        """Let as many people write at the same moment, and wait until every answer has arrived.

        Raises BenchFailed once a model call has failed: the gateway waits long for an endpoint that is away.
        """
        update_ids = [self._api.person(next(self._people)).send(prompt.text).update_id for prompt in prompts]
        for update_id in update_ids:
            await self._wait_until_idle(update_id)

    async def wait_for_turns(self, count: int) -> list[TurnSteps]:
        """The turns since the last call, once `count` of them have their breakdowns."""
        while True:
            async with self._database.read_transaction() as tx:
                turns = await list_accounted_turns(tx, after=self._last_turn_id)
            if len(turns) >= count:
                self._last_turn_id = max(turn.id for turn in turns)
                return turns
            await asyncio.sleep(POLL_SECONDS)

    async def _wait_until_idle(self, update_id: int) -> None:
        while True:
            async with self._database.read_transaction() as tx:
                if await breakdowns.is_idle(tx, update_id):
                    return
                sums = await report_sums.sum_calls(tx, Scope(), None)
            if any(calls.failed for calls in sums):
                raise BenchFailed("a model call of the gateway failed")
            await asyncio.sleep(POLL_SECONDS)


async def _run_protocol(
    driver: _GatewayDriver, protocol: BenchProtocol, on_progress: ProgressCallback
) -> ProtocolTurns:
    label = f"{protocol.label}, gateway"
    on_progress(label, 0, len(protocol.prompts))
    for start in range(0, len(protocol.prompts), protocol.at_once):
        prompts = protocol.prompts[start : start + protocol.at_once]
        await driver.ask(prompts)
        on_progress(label, start + len(prompts), len(protocol.prompts))
    turns = await driver.wait_for_turns(len(protocol.prompts))
    return ProtocolTurns(protocol, tuple(turns), tuple(build_turn_breakdown(turn) for turn in turns))


def build_row(protocol_turns: ProtocolTurns) -> MeasuredRow:
    """The row of a protocol, from messages received to answers delivered."""
    protocol = protocol_turns.protocol
    turns = list(zip(protocol_turns.turns, protocol_turns.breakdowns, strict=True))
    received_at = [turn.received_at for turn, _ in turns]
    ended_at = [turn.received_at + breakdown.total_seconds for turn, breakdown in turns]
    return MeasuredRow(
        key=protocol.key,
        label=protocol.label,
        way="gateway",
        streamed=True,
        thinking=THINKING_OFF,
        at_once=protocol.at_once,
        warm="warm",
        wanted=len(protocol.prompts),
        calls=tuple(
            _to_call(turn, breakdown) for turn, breakdown in turns if turn.ending in _ANSWERED_ENDINGS
        ),
        wall=max(ended_at, default=0.0) - min(received_at, default=0.0),
    )


def _count_ok_calls(turns: Iterable[TurnSteps]) -> int:
    """The number of model calls that the server ended itself."""
    return sum(call.outcome == "ok" for turn in turns for call in turn.calls)


def describe_failure(protocol_turns: ProtocolTurns) -> str | None:
    """Why the gateway could not answer all messages; None if it could."""
    failed_endings = [turn.ending for turn in protocol_turns.turns if turn.ending not in _ANSWERED_ENDINGS]
    if not failed_endings:
        return None
    failed = f"{len(failed_endings)} of {len(protocol_turns.turns)} messages"
    return f"The gateway had no answer to {failed} (ending: {failed_endings[0]})."


def compute_difference(direct_row: MeasuredRow, protocol_turns: ProtocolTurns) -> GatewayDifference | None:
    """The extra seconds of an answer through the gateway, interval by interval.

    None where answers are missing on either side.
    """
    gateway_row = build_row(protocol_turns)
    if not (direct_row.is_complete and gateway_row.is_complete):
        return None
    count = len(protocol_turns.breakdowns)
    seconds_by_turn = [dict(breakdown.interval_seconds) for breakdown in protocol_turns.breakdowns]
    seconds = {
        kind: sum(turn_seconds.get(kind, 0.0) for turn_seconds in seconds_by_turn) / count
        for kind in INTERVAL_ORDER
    }
    return GatewayDifference(
        label=direct_row.label,
        direct=_mean([call.seconds for call in direct_row.calls]) or 0.0,
        gateway=sum(breakdown.total_seconds for breakdown in protocol_turns.breakdowns) / count,
        intervals=tuple(
            IntervalSeconds(kind, kind_seconds)
            for kind, kind_seconds in seconds.items()
            if kind not in MODEL_INTERVALS and kind_seconds > 0
        ),
        model=sum(seconds[kind] for kind in INTERVAL_ORDER if kind in MODEL_INTERVALS),
        tokens=(_mean_tokens(direct_row.calls), _mean_tokens(gateway_row.calls)),
    )


def _mean_tokens(calls: Sequence[MeasuredCall]) -> tuple[float | None, float | None]:
    return _mean([call.prompt for call in calls]), _mean([call.output for call in calls])


def _mean(values: Sequence[float | None]) -> float | None:
    known_values = [value for value in values if value is not None]
    if known_values and len(known_values) == len(values):
        return sum(known_values) / len(known_values)
    return None


def _complete_tokens(count: TokenCount) -> int | None:
    return count.tokens if count.is_complete else None


def _to_call(turn: TurnSteps, breakdown: TurnBreakdown) -> MeasuredCall:
    sent_times = [part.sent_at for part in turn.parts if part.sent_at is not None]
    return MeasuredCall(
        breakdown.total_seconds,
        _complete_tokens(breakdown.output),
        first=min(sent_times) - turn.received_at if sent_times else None,
        prompt=_complete_tokens(breakdown.input),
        cached=_complete_tokens(breakdown.cached),
        estimated=breakdown.canvases,
    )


@contextlib.asynccontextmanager
async def _open_gateway(target: BenchTarget, folder: Path) -> AsyncIterator[_GatewayDriver]:
    api = BotApi(limits=FloodLimits.unlimited())
    settings = {
        "MODEL_NAME": target.model,
        "MODEL_SEATS": str(MAX_CONCURRENT_CALLS),
        "MODEL_MAX_TOKENS": str(MAX_ANSWER_TOKENS),
        "THINKING": "off",
        "WARM_UP": "off",
    }
    if target.api_key:
        settings["MODEL_API_KEY"] = target.api_key
    async with api.serve_on_loopback() as telegram, asyncio.TaskGroup() as tasks:
        environment = BenchEnvironment(api.token, telegram, target.url, folder, settings)
        process = await gateway_process.start_gateway(environment)
        watch_task = tasks.create_task(process.watch())
        try:
            await _wait_for_polling(api, process)
            async with open_database(f"sqlite+aiosqlite:///{folder / 'canvasgram.db'}") as database:
                yield _GatewayDriver(api, database)
        finally:
            await process.kill()  # its ledger is deleted anyway, and Ctrl-C should not wait
            watch_task.cancel()


async def _wait_for_polling(api: BotApi, process: BenchProcess) -> None:
    try:
        await api.wait_until(lambda: api.calls_of("getUpdates"), START_SECONDS)
    except TimeoutError:
        raise BenchFailed(
            f"the gateway did not begin to poll within {START_SECONDS:g} s; "
            f"its last words: {process.last_output()}"
        ) from None
