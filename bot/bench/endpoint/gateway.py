"""`bench gateway`: the prompts of `bench direct` as Telegram messages, through the whole gateway in its own
process.

Telegram is simulated, the endpoint is the one that is measured. Where a turn's seconds went is read from its
account.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bot.bench.endpoint.client import MAX_CONCURRENT_CALLS, BenchTarget
from bot.bench.endpoint.direct import THINKING_OFF, EndpointMeasurements, read_counters
from bot.bench.endpoint.direct import subtract_counters as between
from bot.bench.endpoint.protocols import (
    ANSWER_PROTOCOLS,
    LONG_PROMPTS,
    MAX_ANSWER_TOKENS,
    BenchProtocol,
    ProtocolPrompt,
    select_protocols,
)
from bot.bench.endpoint.result import GatewayDifference, IntervalSeconds, MeasuredCall, MeasuredRow
from bot.bench.harness import bots
from bot.bench.harness.bots import BenchFailed, BotEnvironment, BotProcess
from bot.bench.harness.progress import ProgressCallback
from bot.db.engine import Database, Transaction, open_database
from bot.db.usage import breakdowns as accounts
from bot.db.usage.breakdowns import AccountedTurn
from bot.sim.telegram.server import BotApi, FloodLimits
from bot.usage.breakdown import TurnBreakdown, build_turn_breakdown
from bot.usage.intervals import INTERVAL_ORDER

FIRST_PERSON_ID = 2000  # everybody writes once, into a chat of their own: no answer has a history
POLL_SECONDS = 0.1  # seconds between two looks into the ledger; what is measured was written there
START = 30.0
MODEL_INTERVALS = ("first canvas", "further canvases")

_ANSWERED_ENDINGS = {"answered", "cut"}


@dataclass(frozen=True, slots=True)
class ProtocolTurns:
    """The turns of one protocol and their accounts, in order."""

    protocol: BenchProtocol
    turns: tuple[AccountedTurn, ...]
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
    """Send everything: a row a protocol into `taken`, its turns into `done`; an endpoint that fails ends it."""
    async with _open_gateway(target, folder) as house:
        on_progress("warming up, gateway", 0, 1)
        await house.ask([LONG_PROMPTS[0]])
        measurements.call_count += _count_ok_calls(await house.wait_for_turns(1))
        on_progress("warming up, gateway", 1, 1)
        before = await read_counters(target, measurements)
        for protocol in select_protocols(ANSWER_PROTOCOLS, quick=quick):
            turned = await _run_protocol(house, protocol, on_progress)
            finished.append(turned)
            measurements.call_count += _count_ok_calls(turned.turns)
            after = await read_counters(target, measurements)
            measurements.rows.append(replace(build_row(turned), counted=between(before, after)))
            before = after
            measurements.stop_reason = describe_failure(turned)
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
        """Let as many people write at the same moment, and wait until every answer stands there."""
        sent = [self._api.person(next(self._people)).send(ask.text).update_id for ask in prompts]
        for update in sent:
            await self._wait_until(partial(accounts.is_idle, update_id=update))

    async def wait_for_turns(self, count: int) -> list[AccountedTurn]:
        """The turns since this was asked last, once so many of them have their accounts."""
        while True:
            async with self._database.read_transaction() as tx:
                turns = await accounts.list_accounted_turns(tx, after=self._last_turn_id)
            if len(turns) >= count:
                self._last_turn_id = max(turn.id for turn in turns)
                return turns
            await asyncio.sleep(POLL_SECONDS)

    async def _wait_until(self, predicate: Callable[[Transaction], Awaitable[bool]]) -> None:
        while True:
            async with self._database.read_transaction() as tx:
                if await predicate(tx):
                    return
            await asyncio.sleep(POLL_SECONDS)


async def _run_protocol(
    driver: _GatewayDriver, protocol: BenchProtocol, on_progress: ProgressCallback
) -> ProtocolTurns:
    label = f"{protocol.label}, gateway"
    on_progress(label, 0, len(protocol.prompts))
    for place in range(0, len(protocol.prompts), protocol.at_once):
        asks = protocol.prompts[place : place + protocol.at_once]
        await driver.ask(asks)
        on_progress(label, place + len(asks), len(protocol.prompts))
    turns = await driver.wait_for_turns(len(protocol.prompts))
    return ProtocolTurns(protocol, tuple(turns), tuple(build_turn_breakdown(turn) for turn in turns))


def build_row(protocol_turns: ProtocolTurns) -> MeasuredRow:
    """The row of a protocol, from messages received to answers delivered."""
    protocol = protocol_turns.protocol
    ends = [
        turn.received_at + counted.total_seconds
        for turn, counted in zip(protocol_turns.turns, protocol_turns.breakdowns, strict=True)
    ]
    begins = [turn.received_at for turn in protocol_turns.turns]
    answered = [
        _to_call(turn, counted)
        for turn, counted in zip(protocol_turns.turns, protocol_turns.breakdowns, strict=True)
    ]
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
            call
            for call, turn in zip(answered, protocol_turns.turns, strict=True)
            if turn.ending in _ANSWERED_ENDINGS
        ),
        wall=max(ends, default=0.0) - min(begins, default=0.0),
    )


def _count_ok_calls(turns: Iterable[AccountedTurn]) -> int:
    """Model calls that the server ended itself."""
    return sum(call.outcome == "ok" for turn in turns for call in turn.calls)


def describe_failure(protocol_turns: ProtocolTurns) -> str | None:
    """Why the gateway could not answer all of them; None if it could."""
    lost = [turn.ending for turn in protocol_turns.turns if turn.ending not in _ANSWERED_ENDINGS]
    if not lost:
        return None
    return f"The gateway had no answer to {len(lost)} of {len(protocol_turns.turns)} messages (ending: {lost[0]})."


def compute_difference(direct_row: MeasuredRow, protocol_turns: ProtocolTurns) -> GatewayDifference | None:
    """What an answer took more than directly, interval by interval; None where either way lacks answers."""
    through = build_row(protocol_turns)
    if not (direct_row.is_complete and through.is_complete):
        return None
    count = len(protocol_turns.breakdowns)
    seconds = {
        kind: sum(dict(one.interval_seconds).get(kind, 0.0) for one in protocol_turns.breakdowns) / count
        for kind in INTERVAL_ORDER
    }
    return GatewayDifference(
        label=direct_row.label,
        direct=_mean([call.seconds for call in direct_row.calls]) or 0.0,
        gateway=sum(one.total_seconds for one in protocol_turns.breakdowns) / count,
        intervals=tuple(
            IntervalSeconds(kind, spent)
            for kind, spent in seconds.items()
            if kind not in MODEL_INTERVALS and spent > 0
        ),
        model=sum(seconds[kind] for kind in INTERVAL_ORDER if kind in MODEL_INTERVALS),
        tokens=(_mean_tokens(direct_row.calls), _mean_tokens(through.calls)),
    )


def _mean_tokens(calls: Sequence[MeasuredCall]) -> tuple[float | None, float | None]:
    return _mean([call.prompt for call in calls]), _mean([call.output for call in calls])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if known and len(known) == len(values):
        return sum(known) / len(known)
    return None


def _to_call(turn: AccountedTurn, breakdown: TurnBreakdown) -> MeasuredCall:
    shown = [part.sent_at for part in turn.parts if part.sent_at is not None]
    return MeasuredCall(
        breakdown.total_seconds,
        breakdown.output.tokens if breakdown.output.is_complete else None,
        first=min(shown) - turn.received_at if shown else None,
        prompt=breakdown.input.tokens if breakdown.input.is_complete else None,
        cached=breakdown.cached.tokens if breakdown.cached.is_complete else None,
        estimated=breakdown.canvases,
    )


@contextlib.asynccontextmanager
async def _open_gateway(target: BenchTarget, folder: Path) -> AsyncIterator[_GatewayDriver]:
    api = BotApi(limits=FloodLimits.unlimited())
    settings = {
        "MODEL_NAME": target.model,
        "MODEL_SEATS": str(MAX_CONCURRENT_CALLS),
        "MODEL_MAX_TOKENS": str(MAX_ANSWER_TOKENS),
        "MODEL_WAIT": "0",
        "THINKING": "off",
        "WARM_UP": "off",
    }
    if target.api_key:
        settings["MODEL_API_KEY"] = target.api_key
    async with api.serve_on_loopback() as telegram, asyncio.TaskGroup() as watch:
        running = await bots.start_bot(
            "ours", BotEnvironment(api.token, telegram, target.url, folder, settings)
        )
        watching = watch.create_task(running.watch())
        try:
            await _wait_for_polling(api, running)
            async with open_database(f"sqlite+aiosqlite:///{folder / 'canvasgram.db'}") as database:
                yield _GatewayDriver(api, database)
        finally:
            await running.kill()  # its ledger is thrown away, and Ctrl-C waits for nobody
            watching.cancel()


async def _wait_for_polling(api: BotApi, process: BotProcess) -> None:
    try:
        await api.wait_until(lambda: api.calls_of("getUpdates"), START)
    except TimeoutError:
        raise BenchFailed(
            f"the gateway did not begin to poll within {START:g} s; its last words: {process.last_output()}"
        ) from None
