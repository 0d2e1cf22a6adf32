"""Leads a check through its steps and keeps what was seen. An endpoint that dies on the way ends it, with its reason.

Owns the order of the steps: prompts that share a head come one after another, so that the prefix cache shows itself.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import httpx

from bot.agent.dialect import PLAIN, VLLM, Dialect
from bot.check import crowd, prompts
from bot.check.seen import THINKING, Answer, Part, Route, Seen, Shape
from bot.check.wire import Limits, Lost, Spent, Wire
from bot.domain import CANVAS, Message, ModelRequest

MOST_LOST: Final = 3  # calls in a row that may come to nothing

Progress = Callable[[int, int, str], None]
"""Told before each step: steps done, steps in all, what comes now."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Which endpoint to look at, and what the gateway needs of it: `tokens` of context, `seats`."""

    url: str
    key: str | None = None
    model: str | None = None
    tokens: int | None = None
    seats: int | None = None
    limits: Limits = field(default_factory=Limits)


async def look(wish: Wish, progress: Progress, stop: asyncio.Event | None = None) -> Seen:
    """Make all calls of a check, or those until `stop`; never raises for what the endpoint does."""
    timeout = httpx.Timeout(wish.limits.call_seconds)
    # vLLM drops idle connections after 5 s; a call on one it is just dropping would look like a fault.
    limits = httpx.Limits(max_connections=None, keepalive_expiry=3.0)
    async with httpx.AsyncClient(timeout=timeout, trust_env=False, limits=limits) as http:
        probe = _Probe(Wire(http, wish.url, wish.key, wish.limits), wish)
        async with asyncio.TaskGroup() as tasks:
            leading = tasks.create_task(probe.lead(progress), name="check")
            stopping = tasks.create_task(_stopped(stop, leading), name="stop")
            leading.add_done_callback(lambda _: stopping.cancel())
        return probe.told(interrupted=leading.cancelled())


class _Probe:
    """One check on its way."""

    def __init__(self, wire: Wire, wish: Wish) -> None:
        self._wire = wire
        self._dialect: Dialect = VLLM
        self._model = wish.model
        self._head = prompts.head(secrets.token_hex(4))
        self._lost = 0
        self._began = time.monotonic()
        self.seen = Seen(
            wish.url,
            has_key=wish.key is not None,
            wanted_model=wish.model,
            needs_tokens=wish.tokens,
            needs_seats=wish.seats,
        )

    async def lead(self, progress: Progress) -> None:
        """Take all steps."""
        for place, (name, step) in enumerate(_STEPS):
            if self.seen.stopped is not None:
                break
            progress(place, len(_STEPS), name)
            await self._take(name, step)
        progress(len(_STEPS), len(_STEPS), "done")

    def told(self, *, interrupted: bool) -> Seen:
        """What was seen so far."""
        seen = replace(self.seen, calls=self._wire.calls, seconds=time.monotonic() - self._began)
        return replace(seen, stopped="the check was interrupted") if interrupted else seen

    async def _take(self, name: str, step: "_Step") -> None:
        try:
            found = await step(self)
            self.seen = replace(self.seen, **found)
            self._lost = 0
        except Spent:
            self.seen = replace(self.seen, stopped=f"all {self._wire.limits.calls} calls of a check were used up")
        except Lost as lost:
            self.seen = replace(self.seen, lost={**self.seen.lost, name: f"{lost}, when asked for: {name}"})
            self._lost += 1
            await self._look_again(str(lost))

    async def _look_again(self, why: str) -> None:
        """A lost call may be one call's bad luck; a server that is gone ends the check."""
        if self.seen.version is None and self.seen.models is None:
            if "models" in self.seen.lost:
                self._gone(f"the endpoint cannot be reached: {why}")
            return
        if self._lost >= MOST_LOST:
            self._gone(f"the endpoint stopped answering after {self._wire.calls} calls: {why}")
            return
        try:
            alive = (await self._wire.route("GET", "/health")).status < 500
        except (Lost, Spent):
            alive = False
        if not alive:
            self._gone(f"the endpoint went away after {self._wire.calls} calls: {why}")

    def _gone(self, why: str) -> None:
        self.seen = replace(self.seen, stopped=why, gone=True)

    async def version(self) -> Mapping[str, Any]:
        return {"version": await self._wire.route("GET", "/version")}

    async def models(self) -> Mapping[str, Any]:
        route = await self._wire.route("GET", "models")
        found: dict[str, Any] = {"models": route}
        if route.status in {401, 403}:
            found["stopped"] = "the key is refused" if self.seen.has_key else "a key is wanted"
        elif route.status >= 500:
            found |= {"stopped": f"the endpoint is not ready (HTTP {route.status})", "gone": True}
        else:
            served = _served(route.body)
            # A model that is not there is a finding; the rest is looked at with one that is.
            self._model = self._model if self._model in served or not served else served[0]
            found["stopped"] = None if self._model else "no model is served there"
        return found

    async def keyless(self) -> Mapping[str, Any]:
        if not self.seen.has_key:
            return {}
        return {"keyless": await self._wire.route("GET", "models", with_key=False)}

    async def gauges(self) -> Mapping[str, Any]:
        return {"before": await self._wire.gauges()}

    async def template(self) -> Mapping[str, Any]:
        shown: dict[Shape, Route] = {}
        for shape in _SHAPES:
            shown[shape] = await self._wire.route("POST", "/tokenize", {"model": self._model, **prompts.shape(shape)})
            if not shown[shape].ok:
                break
        return {"templates": shown}

    async def plain(self) -> Mapping[str, Any]:
        """The first call of all; a server that refuses vLLM's fields is asked in the common protocol from here on."""
        answer = await self._wire.ask(self._body(self._off(), streamed=False))
        if answer.ok:
            return self._with("plain", answer)
        if answer.status in {400, 422}:
            self._dialect = PLAIN
            again = await self._wire.ask(self._body(self._off(), streamed=False))
            if again.ok:
                return {**self._with("plain", again), "refuses_ours": answer.words}
        return {**self._with("plain", answer), "stopped": "the first model call was refused"}

    async def temperature(self) -> Mapping[str, Any]:
        body = {**self._body(self._off(), streamed=False), "temperature": 0.5}
        return self._with("temperature", await self._wire.ask(body))

    async def picture(self) -> Mapping[str, Any]:
        request = prompts.asking([prompts.with_picture()], tools=False)
        return self._with("picture", await self._wire.ask(self._body(replace(request, tools=()), streamed=False)))

    async def crowd(self) -> Mapping[str, Any]:
        bodies = [self._body(prompts.counting(prompts.LAST, prompts.ROOM)) for _ in range(crowd.SIZE - 1)]
        short = self._body(prompts.counting(9, CANVAS))
        urgent = self._body(prompts.counting(9, CANVAS, urgent=True))
        return {"crowd": await crowd.gather(self._wire, [short, *bodies], urgent)}

    async def abort(self) -> Mapping[str, Any]:
        body = self._body(prompts.counting(prompts.ENDLESS, 16 * CANVAS))
        return {"abort": await crowd.leave(self._wire, body)}

    async def read(self) -> Mapping[str, Any]:
        return {"read": await self._wire.route("POST", "systemone", prompts.typed_read(self._model or ""))}

    async def answer(self, part: Part) -> Mapping[str, Any]:
        """One of the calls that share a head; nothing is asked of thinking where it cannot be switched."""
        thinks = part in THINKING
        if thinks and not self._dialect.thinking:
            return {}
        request = prompts.asking(
            [self._head, *_WISHES[part]],
            thinking=thinks,
            tools=part not in {"thought", "counting"},
            limit=prompts.ROOM * (2 if thinks else 1),
        )
        return self._with(part, await self._wire.ask(self._body(request, streamed=not part.endswith("whole"))))

    def _off(self) -> ModelRequest:
        return prompts.asking([self._head, *_WISHES["plain"]], tools=False)

    def _body(self, request: ModelRequest, *, streamed: bool = True) -> dict[str, Any]:
        return prompts.body(self._dialect, self._model or "", request, streamed=streamed)

    def _with(self, part: Part, answer: Answer) -> Mapping[str, Any]:
        return {"answers": {**self.seen.answers, part: answer}}


_Step = Callable[[_Probe], Awaitable[Mapping[str, Any]]]

_SHAPES: Final[tuple[Shape, ...]] = ("off", "on", "default", "history", "loop")
_ASKING: Final = (Message("user", prompts.ASKING),)
_WISHES: Final[Mapping[Part, tuple[Message, ...]]] = {
    "plain": (Message("user", prompts.PREAMBLE + prompts.READY),),
    "counting": (Message("user", prompts.COUNTING),),
    "tools": _ASKING,
    "tools, whole": _ASKING,
    "thought": (Message("user", prompts.THINKING),),
    "tools, thinking": _ASKING,
    "tools, thinking, whole": _ASKING,
    "results": (*_ASKING, *prompts.results()),
    "results, whole": (*_ASKING, *prompts.results()),
}


def _calling(part: Part) -> tuple[str, _Step]:
    return part, lambda probe: probe.answer(part)


_STEPS: Final[tuple[tuple[str, _Step], ...]] = (
    ("version", _Probe.version),
    ("models", _Probe.models),
    ("key", _Probe.keyless),
    ("template", _Probe.template),
    ("gauges", _Probe.gauges),
    ("plain", _Probe.plain),
    *(_calling(part) for part in _WISHES if part != "plain"),
    ("picture", _Probe.picture),
    ("temperature", _Probe.temperature),
    ("crowd", _Probe.crowd),
    ("abort", _Probe.abort),
    ("read", _Probe.read),
)


async def _stopped(stop: asyncio.Event | None, leading: asyncio.Task[None]) -> None:
    if stop is not None:
        await stop.wait()
        leading.cancel()


def _served(body: Mapping[str, Any]) -> list[str]:
    rows = body.get("data")
    names = [row.get("id") for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    return [name for name in names if isinstance(name, str)]
