"""`bench direct`: the published protocols against an endpoint itself, nothing in between. Builds rows; prints
nothing.

What is done is kept when the run is stopped or the endpoint dies.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

from bot.bench.endpoint import tool_calls as direct_tools
from bot.bench.endpoint.client import Caller, Target, asking, calling
from bot.bench.endpoint.protocols import FIRST_REQUEST, LONG_ANSWERS, PROTOCOLS, Ask, Protocol, wished
from bot.bench.endpoint.result import Call, Counted, Measured, ToolCase, Warmth
from bot.bench.harness.progress import Step
from bot.domain import CANVAS
from bot.errors import CallFailed, CanvasgramError
from bot.llm import server_api as server
from bot.llm.server_api import Counters

OFF = "off"
ON = "on"
SERVERS_OWN = "the server's own choice"


@dataclass(slots=True)
class Taken:
    """What has been measured so far. `before` and `after` are the server's counters, first and last; `calls`
    of ours came back, `ours` of them before `after`. `timings` and `details`: the server told its own times,
    and cached tokens.
    """

    rows: list[Measured] = field(default_factory=list)
    tools: list[ToolCase] = field(default_factory=list)
    ended: str | None = None
    before: Counters | None = None
    after: Counters | None = None
    calls: int = 0
    ours: int = 0
    timings: bool = False
    details: bool = False


@dataclass(frozen=True, slots=True)
class Wish:
    """How much is measured: `protocols` streamed, and whole too if `whole`; single tool calls if `tools`."""

    protocols: Sequence[Protocol] = PROTOCOLS
    quick: bool = False
    whole: bool = True
    tools: bool = True


async def measure(target: Target, wish: Wish, taken: Taken, step: Step) -> None:
    """Ask for everything, into `taken`; an endpoint that fails ends it, and `taken.ended` says how."""
    async with calling(target) as caller:
        run = _Run(caller, target, taken, step)
        try:
            taken.before = await look(target, taken)
            await run.first()
            await run.protocols(wish)
            if wish.tools:
                for thinking in (False, True):
                    await run.tool_calls(thinking=thinking, quick=wish.quick)
        except* CallFailed as failed:
            taken.ended = words(failed)


async def until(stop: asyncio.Event, work: Coroutine[None, None, None]) -> bool:
    """Do `work`, or leave it when `stop` is set; whether it came to its end."""
    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(work)
        stopping = tasks.create_task(stop.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        ended = working.done()
        working.cancel()
        stopping.cancel()
    return ended


async def look(target: Target, taken: Taken) -> Counters | None:
    """The server's counters now, also into `taken`; None where they cannot be read."""
    taken.after = await server.counters(target.url, target.key)
    taken.ours = taken.calls
    return taken.after


class _Run:
    """One run against one endpoint."""

    def __init__(self, caller: Caller, target: Target, taken: Taken, step: Step) -> None:
        self._caller = caller
        self._target = target
        self._taken = taken
        self._step = step
        self._off = SERVERS_OWN if target.version is None else OFF

    async def first(self) -> None:
        """The first request, apart; then one answer that is thrown away."""
        served = self._taken.before.requests if self._taken.before else None
        warm: Warmth = "unknown" if served is None else "warm" if served else "cold"
        await self._row(FIRST_REQUEST, streamed=True, warm=warm)
        self._step("warming up", 0, 1)
        await self._call(LONG_ANSWERS[0], streamed=True)
        self._step("warming up", 1, 1)

    async def protocols(self, wish: Wish) -> None:
        """Every protocol, streamed and whole."""
        for protocol in wished(wish.protocols, quick=wish.quick):
            await self._row(protocol, streamed=True)
            if wish.whole and not wish.quick and protocol.brief:
                await self._row(protocol, streamed=False)

    async def tool_calls(self, *, thinking: bool, quick: bool) -> None:
        """Single calls that want a tool, with thinking or without."""
        box = direct_tools.offered()
        cases = direct_tools.some(quick=quick)
        if self._target.version is not None:
            words = ON if thinking else OFF
        else:
            words = SERVERS_OWN
        verdicts: list[direct_tools.Verdict] = []
        calls: list[Call] = []
        try:
            for case in cases:
                self._step(f"tools, thinking {words}", len(calls), len(cases))
                request = direct_tools.asking(case, box, thinking=thinking)
                reply, call = await self._caller.call(request, streamed=True)
                verdicts.append(direct_tools.judged(reply, case, box.tools))
                calls.append(self._noted(call))
            self._step(f"tools, thinking {words}", len(calls), len(cases))
            await look(self._target, self._taken)
        finally:
            right = verdicts.count("right")
            mended = verdicts.count("mended")
            if calls:
                self._taken.tools.append(ToolCase(words, len(calls), right, right + mended, tuple(calls)))

    async def _row(self, protocol: Protocol, *, streamed: bool, warm: Warmth = "warm") -> None:
        calls: list[Call] = []
        before = await look(self._target, self._taken)
        began = monotonic()
        try:
            await self._answers(protocol, calls, streamed=streamed)
        finally:
            row = Measured(
                key=protocol.key,
                label=protocol.label,
                way="direct",
                streamed=streamed,
                thinking=self._off,
                at_once=protocol.at_once,
                warm=warm,
                wanted=len(protocol.asks),
                calls=tuple(calls),
                wall=monotonic() - began,
            )
            if calls:
                self._taken.rows.append(row)
        self._taken.rows[-1] = replace(row, counted=counted(before, await look(self._target, self._taken)))

    async def _answers(self, protocol: Protocol, calls: list[Call], *, streamed: bool) -> None:
        """Ask for all of a protocol, into `calls` as the answers come."""
        if streamed:
            label = protocol.label
        else:
            label = f"{protocol.label}, not streamed"
        waiting = list(reversed(protocol.asks))

        async def seat() -> None:
            while waiting:
                calls.append(await self._call(waiting.pop(), streamed=streamed))
                self._step(label, len(calls), len(protocol.asks))

        self._step(label, 0, len(protocol.asks))
        async with asyncio.TaskGroup() as tasks:
            for _ in range(protocol.at_once):
                tasks.create_task(seat())

    async def _call(self, ask: Ask, *, streamed: bool) -> Call:
        reply, call = await self._caller.call(asking(ask.text, ask.most), streamed=streamed)
        self._taken.timings |= reply.server is not None
        self._taken.details |= reply.usage.cached_tokens is not None
        return self._noted(call)

    def _noted(self, call: Call) -> Call:
        self._taken.calls += 1
        return call


def words(failed: BaseExceptionGroup[CanvasgramError]) -> str:
    """What the first of them says."""
    first: BaseException = failed
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return str(first)


def counted(before: Counters | None, after: Counters | None) -> Counted | None:
    """What the server counted between two looks; None where it does not count canvases, or began anew."""
    if (
        before is None
        or after is None
        or None in (before.steps, before.committed, after.steps, after.committed)
    ):
        return None
    steps = (after.steps or 0) - (before.steps or 0)
    canvases = ((after.committed or 0) - (before.committed or 0)) / CANVAS
    if steps < 0 or canvases <= 0:
        return None
    return Counted(canvases, steps / canvases - 1)
