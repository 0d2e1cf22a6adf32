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

from bot.bench.endpoint.client import AT_ONCE, Target
from bot.bench.endpoint.direct import OFF, Taken, look
from bot.bench.endpoint.direct import counted as between
from bot.bench.endpoint.protocols import ANSWERS, ENOUGH, LONG_ANSWERS, Ask, Protocol, wished
from bot.bench.endpoint.result import Call, Difference, Interval, Measured
from bot.bench.harness import bots
from bot.bench.harness.bots import BenchFailed, Running, Where
from bot.bench.harness.progress import Step
from bot.db.engine import Database, Transaction, connected
from bot.db.usage import breakdowns as accounts
from bot.db.usage.breakdowns import TurnRow
from bot.sim.telegram.server import BotApi, Limits
from bot.usage.breakdown import Account, account
from bot.usage.intervals import ORDER

FIRST_PERSON = 2000  # everybody writes once, into a chat of their own: no answer has a history
LOOK = 0.1  # seconds between two looks into the ledger; what is measured was written there
START = 30.0
MODEL = ("first canvas", "further canvases")

_HAD = {"answered", "cut"}


@dataclass(frozen=True, slots=True)
class Turned:
    """The turns of one protocol and their accounts, in order."""

    protocol: Protocol
    turns: tuple[TurnRow, ...]
    accounts: tuple[Account, ...]


async def measure(
    target: Target, folder: Path, taken: Taken, done: list[Turned], step: Step, *, quick: bool
) -> None:
    """Send everything: a row a protocol into `taken`, its turns into `done`; an endpoint that fails ends it."""
    async with _opened(target, folder) as house:
        step("warming up, gateway", 0, 1)
        await house.ask([LONG_ANSWERS[0]])
        taken.calls += _ended(await house.turns(1))
        step("warming up, gateway", 1, 1)
        before = await look(target, taken)
        for protocol in wished(ANSWERS, quick=quick):
            turned = await _protocol(house, protocol, step)
            done.append(turned)
            taken.calls += _ended(turned.turns)
            after = await look(target, taken)
            taken.rows.append(replace(row(turned), counted=between(before, after)))
            before = after
            taken.ended = failing(turned)
            if taken.ended:
                break


class _House:
    """A running gateway between a simulated Telegram and the endpoint."""

    def __init__(self, api: BotApi, database: Database) -> None:
        self._api = api
        self._database = database
        self._people = itertools.count(FIRST_PERSON)
        self._newest = 0

    async def ask(self, asks: Sequence[Ask]) -> None:
        """Let as many people write at the same moment, and wait until every answer stands there."""
        sent = [self._api.person(next(self._people)).send(ask.text).update_id for ask in asks]
        for update in sent:
            await self._until(partial(accounts.settled, update_id=update))

    async def turns(self, count: int) -> list[TurnRow]:
        """The turns since this was asked last, once so many of them have their accounts."""
        while True:
            async with self._database.reading() as tx:
                turns = await accounts.delivered(tx, after=self._newest)
            if len(turns) >= count:
                self._newest = max(turn.id for turn in turns)
                return turns
            await asyncio.sleep(LOOK)

    async def _until(self, so: Callable[[Transaction], Awaitable[bool]]) -> None:
        while True:
            async with self._database.reading() as tx:
                if await so(tx):
                    return
            await asyncio.sleep(LOOK)


async def _protocol(house: _House, protocol: Protocol, step: Step) -> Turned:
    label = f"{protocol.label}, gateway"
    step(label, 0, len(protocol.asks))
    for place in range(0, len(protocol.asks), protocol.at_once):
        asks = protocol.asks[place : place + protocol.at_once]
        await house.ask(asks)
        step(label, place + len(asks), len(protocol.asks))
    turns = await house.turns(len(protocol.asks))
    return Turned(protocol, tuple(turns), tuple(account(turn) for turn in turns))


def row(turned: Turned) -> Measured:
    """The row of a protocol, from messages received to answers delivered."""
    protocol = turned.protocol
    ends = [
        turn.received_at + counted.whole for turn, counted in zip(turned.turns, turned.accounts, strict=True)
    ]
    begins = [turn.received_at for turn in turned.turns]
    answered = [_call(turn, counted) for turn, counted in zip(turned.turns, turned.accounts, strict=True)]
    return Measured(
        key=protocol.key,
        label=protocol.label,
        way="gateway",
        streamed=True,
        thinking=OFF,
        at_once=protocol.at_once,
        warm="warm",
        wanted=len(protocol.asks),
        calls=tuple(call for call, turn in zip(answered, turned.turns, strict=True) if turn.ending in _HAD),
        wall=max(ends, default=0.0) - min(begins, default=0.0),
    )


def _ended(turns: Iterable[TurnRow]) -> int:
    """Model calls that the server ended itself."""
    return sum(call.outcome == "ok" for turn in turns for call in turn.calls)


def failing(turned: Turned) -> str | None:
    """Why the gateway could not answer all of them; None if it could."""
    lost = [turn.ending for turn in turned.turns if turn.ending not in _HAD]
    if not lost:
        return None
    return f"The gateway had no answer to {len(lost)} of {len(turned.turns)} messages (ending: {lost[0]})."


def difference(direct: Measured, turned: Turned) -> Difference | None:
    """What an answer took more than directly, interval by interval; None where either way lacks answers."""
    through = row(turned)
    if not (direct.whole and through.whole):
        return None
    count = len(turned.accounts)
    seconds = {
        kind: sum(dict(one.seconds).get(kind, 0.0) for one in turned.accounts) / count for kind in ORDER
    }
    return Difference(
        label=direct.label,
        direct=_mean([call.seconds for call in direct.calls]) or 0.0,
        gateway=sum(one.whole for one in turned.accounts) / count,
        intervals=tuple(
            Interval(kind, spent) for kind, spent in seconds.items() if kind not in MODEL and spent > 0
        ),
        model=sum(seconds[kind] for kind in ORDER if kind in MODEL),
        tokens=(_tokens(direct.calls), _tokens(through.calls)),
    )


def _tokens(calls: Sequence[Call]) -> tuple[float | None, float | None]:
    return _mean([call.prompt for call in calls]), _mean([call.output for call in calls])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if known and len(known) == len(values):
        return sum(known) / len(known)
    return None


def _call(turn: TurnRow, counted: Account) -> Call:
    shown = [part.sent_at for part in turn.parts if part.sent_at is not None]
    return Call(
        counted.whole,
        counted.output.tokens if counted.output.whole else None,
        first=min(shown) - turn.received_at if shown else None,
        prompt=counted.input.tokens if counted.input.whole else None,
        cached=counted.cached.tokens if counted.cached.whole else None,
        estimated=counted.canvases,
    )


@contextlib.asynccontextmanager
async def _opened(target: Target, folder: Path) -> AsyncIterator[_House]:
    api = BotApi(limits=Limits.none())
    settings = {
        "MODEL_NAME": target.model,
        "MODEL_SEATS": str(AT_ONCE),
        "MODEL_MAX_TOKENS": str(ENOUGH),
        "MODEL_WAIT": "0",
        "THINKING": "off",
        "WARM_UP": "off",
    }
    if target.key:
        settings["MODEL_API_KEY"] = target.key
    async with api.served() as telegram, asyncio.TaskGroup() as watch:
        running = await bots.start("ours", Where(api.token, telegram, target.url, folder, settings))
        watching = watch.create_task(running.watch())
        try:
            await _polling(api, running)
            async with connected(f"sqlite+aiosqlite:///{folder / 'canvasgram.db'}") as database:
                yield _House(api, database)
        finally:
            await running.kill()  # its ledger is thrown away, and Ctrl-C waits for nobody
            watching.cancel()


async def _polling(api: BotApi, running: Running) -> None:
    try:
        await api.until(lambda: api.calls_of("getUpdates"), START)
    except TimeoutError:
        raise BenchFailed(
            f"the gateway did not begin to poll within {START:g} s; its last words: {running.last_words()}"
        ) from None
