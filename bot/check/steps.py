"""The steps of a check, each a call or a few, and what each adds to what was seen.

Owns their order: prompts that share a head come one after another, so that the prefix cache shows itself.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from bot.check import load_probe as crowd
from bot.check import prompts
from bot.check.client import Wire
from bot.check.observations import THINKING, Answer, Part, Route, Seen, Shape
from bot.domain import CANVAS, Message, ModelRequest
from bot.llm.dialect import PLAIN, VLLM, Dialect
from bot.llm.server_api import served


class Asker:
    """Asks over a wire, and remembers what it has learned of the endpoint: its model and its language."""

    def __init__(self, wire: Wire, model: str | None) -> None:
        self._wire = wire
        self._model = model
        self._dialect: Dialect = VLLM
        self._head = prompts.head(secrets.token_hex(4))

    # Each gives the fields of `Seen` that are known by it, and raises Lost and Spent as the wire does.

    async def version(self, seen: Seen) -> Mapping[str, Any]:
        return {"version": await self._wire.route("GET", "/version")}

    async def models(self, seen: Seen) -> Mapping[str, Any]:
        route = await self._wire.route("GET", "models")
        found: dict[str, Any] = {"models": route}
        if route.status in {401, 403}:
            if seen.has_key:
                found["stopped"] = "the key is refused"
            else:
                found["stopped"] = "a key is wanted"
        elif route.status >= 500:
            found |= {"stopped": f"the endpoint is not ready (HTTP {route.status})", "gone": True}
        else:
            names = [model.name for model in served(route.body)]
            # A model that is not there is a finding; the rest is looked at with one that is.
            if self._model in names or not names:
                self._model = self._model
            else:
                self._model = names[0]
            if self._model:
                found["stopped"] = None
            else:
                found["stopped"] = "no model is served there"
        return found

    async def keyless(self, seen: Seen) -> Mapping[str, Any]:
        if not seen.has_key:
            return {}
        return {"keyless": await self._wire.route("GET", "models", with_key=False)}

    async def gauges(self, seen: Seen) -> Mapping[str, Any]:
        return {"before": await self._wire.gauges()}

    async def template(self, seen: Seen) -> Mapping[str, Any]:
        shown: dict[Shape, Route] = {}
        for shape in _SHAPES:
            shown[shape] = await self._wire.route(
                "POST", "/tokenize", {"model": self._model, **prompts.shape(shape)}
            )
            if not shown[shape].ok:
                break
        return {"templates": shown}

    async def plain(self, seen: Seen) -> Mapping[str, Any]:
        """The first call of all; a server that refuses vLLM's fields is asked in the common protocol from
        here on.
        """
        answer = await self._wire.ask(self._body(self._off(), streamed=False))
        if answer.ok:
            return _with(seen, "plain", answer)
        if answer.status in {400, 422}:
            self._dialect = PLAIN
            again = await self._wire.ask(self._body(self._off(), streamed=False))
            if again.ok:
                return {**_with(seen, "plain", again), "refuses_ours": answer.words}
        return {**_with(seen, "plain", answer), "stopped": "the first model call was refused"}

    async def temperature(self, seen: Seen) -> Mapping[str, Any]:
        body = {**self._body(self._off(), streamed=False), "temperature": 0.5}
        return _with(seen, "temperature", await self._wire.ask(body))

    async def picture(self, seen: Seen) -> Mapping[str, Any]:
        request = prompts.asking([prompts.with_picture()], tools=False)
        return _with(
            seen, "picture", await self._wire.ask(self._body(replace(request, tools=()), streamed=False))
        )

    async def crowd(self, seen: Seen) -> Mapping[str, Any]:
        bodies = [self._body(prompts.counting(prompts.LAST, prompts.ROOM)) for _ in range(crowd.SIZE - 1)]
        short = self._body(prompts.counting(9, CANVAS))
        urgent = self._body(prompts.counting(9, CANVAS, urgent=True))
        return {"crowd": await crowd.gather(self._wire, [short, *bodies], urgent)}

    async def abort(self, seen: Seen) -> Mapping[str, Any]:
        body = self._body(prompts.counting(prompts.ENDLESS, 16 * CANVAS))
        return {"abort": await crowd.leave(self._wire, body)}

    async def read(self, seen: Seen) -> Mapping[str, Any]:
        return {"read": await self._wire.route("POST", "systemone", prompts.typed_read(self._model or ""))}

    async def answer(self, seen: Seen, part: Part) -> Mapping[str, Any]:
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
        return _with(
            seen, part, await self._wire.ask(self._body(request, streamed=not part.endswith("whole")))
        )

    def _off(self) -> ModelRequest:
        return prompts.asking([self._head, *_WISHES["plain"]], tools=False)

    def _body(self, request: ModelRequest, *, streamed: bool = True) -> dict[str, Any]:
        return prompts.body(self._dialect, self._model or "", request, streamed=streamed)


Step = Callable[[Asker, Seen], Awaitable[Mapping[str, Any]]]
"""Gives the fields of `Seen` that are known by it; raises Lost and Spent as the wire does."""

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


def _calling(part: Part) -> tuple[str, Step]:
    return part, lambda asker, seen: asker.answer(seen, part)


STEPS: Final[tuple[tuple[str, Step], ...]] = (
    ("version", Asker.version),
    ("models", Asker.models),
    ("key", Asker.keyless),
    ("template", Asker.template),
    ("gauges", Asker.gauges),
    ("plain", Asker.plain),
    *(_calling(part) for part in _WISHES if part != "plain"),
    ("picture", Asker.picture),
    ("temperature", Asker.temperature),
    ("crowd", Asker.crowd),
    ("abort", Asker.abort),
    ("read", Asker.read),
)


def _with(seen: Seen, part: Part, answer: Answer) -> Mapping[str, Any]:
    return {"answers": {**seen.answers, part: answer}}
