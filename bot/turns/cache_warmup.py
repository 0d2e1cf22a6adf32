"""What the house does with its endpoint at start, and when it came back with an empty cache: looks at what it
is, and puts the head of its prompts into its cache.

Says once what is wrong with it. Its calls are rows of the ledger that belong to no turn, and go behind all
others.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from bot.agent import prompt as prompting
from bot.agent.toolbox import Toolbox
from bot.db.conversations.calls import NewCall
from bot.db.engine import Database
from bot.db.retry import patiently
from bot.domain import CANVAS, WARMUP, LanguageModel, Message, ModelRequest, Reply
from bot.errors import CallFailed, EndpointAway, KeyRefused, ServerAway
from bot.llm import diagnostics as complaints
from bot.llm import server_api as server
from bot.llm.diagnostics import Seen
from bot.turns.call_ledger import Book

SETTLE = 1.0  # seconds after the start that belong to those who have waited for it
PAUSES = (
    2.0,
    5.0,
    10.0,
    30.0,
    60.0,
)  # seconds between looks at an endpoint that is away; the last one repeats
TRIES = 5  # times a warm-up is begun before it is left

# Where a cache keeps the ends of prompts only, a head is in it once two different prompts were seen to share
# it.
ASKS: Final = ("Are you there? One word.", "Ready? Say so in one word.")
NAME: Final = "warm-up"

Tell = Callable[[str, str], Awaitable[None]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The endpoint as the settings name it, the head of every prompt, and what of it is warmed.

    `toolbox` gives the tools that most conversations begin with now. `lineages` are those that turns begin
    with, by thinking; none: nothing is warmed. `longest` is the longest prompt with its answer, in tokens.
    """

    url: str
    key: str | None
    model: str | None
    system: str
    toolbox: Callable[[], Toolbox]
    longest: int
    lineages: tuple[bool, ...]


class Warming:
    """Runs beside the house until cancelled. `name` is the ledger's name of the model, `tell` reaches the
    admins.
    """

    def __init__(
        self, database: Database, model: LanguageModel, wanted: Wanted, *, name: Callable[[], str], tell: Tell
    ) -> None:
        self._book = Book(database)
        self._model = model
        self._wanted = wanted
        self._name = name
        self._tell = tell
        self._due = asyncio.Event()

    def again(self) -> None:
        """The endpoint came back and has forgotten, or the tools are others: look at it and warm it once
        more.
        """
        self._due.set()

    async def run(self) -> None:
        """Look and warm, and again when it is due; an endpoint that is away is waited for."""
        await asyncio.sleep(SETTLE)
        while True:
            try:
                await self._once()
            except Exception:  # a house works without this, so it must not end of it
                log.exception("the endpoint could not be looked at", extra={"action": "warmup.broken"})
            self._due.clear()  # whoever asked for it meanwhile has it by now
            await self._due.wait()

    async def _once(self) -> None:
        version = await self._version()
        seen = await self._look(version)
        await self._complain("server", complaints.of_server(seen))
        if complaints.answers(seen):
            await self._complain("server calls", complaints.of_calls(await self._warm(seen)))

    async def _version(self) -> str | None:
        """What the endpoint says that it is, as soon as it is up."""
        pauses = _pauses()
        while True:
            with contextlib.suppress(ServerAway):
                if await server.health(self._wanted.url):
                    return await server.version(self._wanted.url)
            await asyncio.sleep(next(pauses))

    async def _look(self, version: str | None) -> Seen:
        wanted = self._wanted
        seen = Seen(version, model=wanted.model, longest=wanted.longest)
        try:
            return replace(seen, models=await server.models(wanted.url, wanted.key))
        except KeyRefused as refused:
            return replace(seen, key_refused=str(refused))
        except ServerAway:
            return seen

    async def _warm(self, seen: Seen) -> Seen:
        """Warm every lineage, and tell what was seen by it. From the beginning if the endpoint went away
        meanwhile.
        """
        again = None
        for pause in itertools.islice(_pauses(), TRIES):
            replies: list[tuple[bool, Reply]] = []
            try:
                for thinking in self._wanted.lineages:
                    for step, ask in enumerate(ASKS, 1):
                        replies.append((thinking, await self._call(thinking, step, ask, again)))
            except EndpointAway as away:
                again = "away"
                log.info("the warm-up is put off: %s", away, extra={"action": "warmup.away"})
                await asyncio.sleep(pause)
                await self._version()
            except CallFailed as refused:
                return replace(seen, replies=tuple(replies), refusal=str(refused))
            else:
                return replace(seen, replies=tuple(replies))
        log.warning("the endpoint was not warmed up, for it did not answer", extra={"action": "warmup.left"})
        return seen

    async def _call(self, thinking: bool, step: int, ask: str, again: str | None) -> Reply:
        """One tiny call, with its row; raises CallFailed."""
        request = self._request(thinking, ask)
        came = await self._book.errand(self._model, request, self._row(request, step, again))
        await self._book.close(came.closing)
        if isinstance(came.given, CallFailed):
            raise came.given
        return came.given

    def _request(self, thinking: bool, ask: str) -> ModelRequest:
        """The head of a prompt exactly as turns send it, and a few words behind it."""
        tools = self._wanted.toolbox().definitions
        return ModelRequest(
            messages=prompting.build(self._wanted.system, (), (Message("user", ask),)),
            tools=tools,
            tool_choice="auto" if tools else "none",
            thinking=thinking,
            max_tokens=CANVAS,
            session=NAME,
            lane=NAME,
            priority=WARMUP,
        )

    def _row(self, request: ModelRequest, step: int, again: str | None) -> NewCall:
        system, asked = request.messages
        return NewCall(
            turn=None,
            step=step,
            purpose="warmup",
            again=again,
            endpoint=self._wanted.url,
            model=self._name(),
            thinking=request.thinking,
            tools_offered=len(request.tools),
            chars_system=len(system.text),
            chars_tools=sum(len(str(one)) for one in request.tools),
            chars_history=len(asked.text),
        )

    async def _complain(self, subject: str, lines: tuple[str, ...]) -> None:
        for line in lines:
            log.warning("%s", line, extra={"action": "server.complaint"})
        if lines:
            await patiently(lambda: self._tell(subject, "\n\n".join(["About the model endpoint:", *lines])))


def _pauses() -> Iterator[float]:
    return itertools.chain(PAUSES, itertools.repeat(PAUSES[-1]))
