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
from bot.db.retry import retry_until_available
from bot.domain import CANVAS_TOKENS, WARMUP_PRIORITY, LanguageModel, Message, ModelRequest, Reply
from bot.errors import CallFailed, EndpointAway, KeyRefused, ServerAway
from bot.llm import diagnostics as complaints
from bot.llm import server_api as server
from bot.llm.diagnostics import ServerSnapshot
from bot.turns.call_ledger import CallLedger

START_DELAY_SECONDS = 1.0  # seconds after the start that belong to those who have waited for it
BACKOFF_SECONDS = (
    2.0,
    5.0,
    10.0,
    30.0,
    60.0,
)  # seconds between looks at an endpoint that is away; the last one repeats
MAX_ATTEMPTS = 5  # times a warm-up is begun before it is left

# Where a cache keeps the ends of prompts only, a head is in it once two different prompts were seen to share
# it.
WARMUP_PROMPTS: Final = ("Are you there? One word.", "Ready? Say so in one word.")
WARMUP_SESSION: Final = "warm-up"

NotifyAdmins = Callable[[str, str], Awaitable[None]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WarmupConfig:
    """The endpoint as the settings name it, the head of every prompt, and what of it is warmed.

    `toolbox` gives the tools that most conversations begin with now. `lineages` are those that turns begin
    with, by thinking; none: nothing is warmed. `longest` is the longest prompt with its answer, in tokens.
    """

    url: str
    api_key: str | None
    model: str | None
    system_text: str
    current_toolbox: Callable[[], Toolbox]
    max_context_tokens: int
    lineages: tuple[bool, ...]


class CacheWarmup:
    """Runs beside the house until cancelled. `name` is the ledger's name of the model, `tell` reaches the
    admins.
    """

    def __init__(
        self,
        database: Database,
        model: LanguageModel,
        config: WarmupConfig,
        *,
        model_name: Callable[[], str],
        notify_admins: NotifyAdmins,
    ) -> None:
        self._ledger = CallLedger(database)
        self._model = model
        self._config = config
        self._model_name = model_name
        self._notify_admins = notify_admins
        self._triggered = asyncio.Event()

    def trigger(self) -> None:
        """The endpoint came back and has forgotten, or the tools are others: look at it and warm it once
        more.
        """
        self._triggered.set()

    async def run(self) -> None:
        """Look and warm, and again when it is due; an endpoint that is away is waited for."""
        await asyncio.sleep(START_DELAY_SECONDS)
        while True:
            try:
                await self._inspect_and_warm()
            except Exception:  # a house works without this, so it must not end of it
                log.exception("the endpoint could not be looked at", extra={"action": "warmup.broken"})
            self._triggered.clear()  # whoever asked for it meanwhile has it by now
            await self._triggered.wait()

    async def _inspect_and_warm(self) -> None:
        version = await self._wait_for_version()
        seen = await self._inspect(version)
        await self._report_problems("server", complaints.diagnose_server(seen))
        if complaints.can_answer(seen):
            await self._report_problems(
                "server calls", complaints.diagnose_calls(await self._warm_lineages(seen))
            )

    async def _wait_for_version(self) -> str | None:
        """What the endpoint says that it is, as soon as it is up."""
        pauses = _backoff_delays()
        while True:
            with contextlib.suppress(ServerAway):
                if await server.check_health(self._config.url):
                    return await server.fetch_version(self._config.url)
            await asyncio.sleep(next(pauses))

    async def _inspect(self, version: str | None) -> ServerSnapshot:
        wanted = self._config
        seen = ServerSnapshot(version, model=wanted.model, longest_prompt_tokens=wanted.max_context_tokens)
        try:
            return replace(seen, models=await server.fetch_models(wanted.url, wanted.api_key))
        except KeyRefused as refused:
            return replace(seen, key_refused=str(refused))
        except ServerAway:
            return seen

    async def _warm_lineages(self, snapshot: ServerSnapshot) -> ServerSnapshot:
        """Warm every lineage, and tell what was seen by it. From the beginning if the endpoint went away
        meanwhile.
        """
        again = None
        for pause in itertools.islice(_backoff_delays(), MAX_ATTEMPTS):
            replies: list[tuple[bool, Reply]] = []
            try:
                for thinking in self._config.lineages:
                    for step, ask in enumerate(WARMUP_PROMPTS, 1):
                        replies.append((thinking, await self._call_model(thinking, step, ask, again)))
            except EndpointAway as away:
                again = "away"
                log.info("the warm-up is put off: %s", away, extra={"action": "warmup.away"})
                await asyncio.sleep(pause)
                await self._wait_for_version()
            except CallFailed as refused:
                return replace(snapshot, replies=tuple(replies), refusal=str(refused))
            else:
                return replace(snapshot, replies=tuple(replies))
        log.warning("the endpoint was not warmed up, for it did not answer", extra={"action": "warmup.left"})
        return snapshot

    async def _call_model(
        self, thinking: bool, step: int, prompt_text: str, retry_reason: str | None
    ) -> Reply:
        """One tiny call, with its row; raises CallFailed."""
        request = self._build_request(thinking, prompt_text)
        came = await self._ledger.call_once(
            self._model, request, self._build_row(request, step, retry_reason)
        )
        await self._ledger.close(came.closing)
        if isinstance(came.result, CallFailed):
            raise came.result
        return came.result

    def _build_request(self, thinking: bool, prompt_text: str) -> ModelRequest:
        """The head of a prompt exactly as turns send it, and a few words behind it."""
        tools = self._config.current_toolbox().definitions
        return ModelRequest(
            messages=prompting.build_prompt(self._config.system_text, (), (Message("user", prompt_text),)),
            tools=tools,
            tool_choice="auto" if tools else "none",
            thinking=thinking,
            max_tokens=CANVAS_TOKENS,
            session=WARMUP_SESSION,
            lane=WARMUP_SESSION,
            priority=WARMUP_PRIORITY,
        )

    def _build_row(self, request: ModelRequest, step: int, retry_reason: str | None) -> NewCall:
        system, asked = request.messages
        return NewCall(
            turn=None,
            step=step,
            purpose="warmup",
            again=retry_reason,
            endpoint=self._config.url,
            model=self._model_name(),
            thinking=request.thinking,
            tools_offered=len(request.tools),
            chars_system=len(system.text),
            chars_tools=sum(len(str(one)) for one in request.tools),
            chars_history=len(asked.text),
        )

    async def _report_problems(self, subject: str, lines: tuple[str, ...]) -> None:
        for line in lines:
            log.warning("%s", line, extra={"action": "server.complaint"})
        if lines:
            await retry_until_available(
                lambda: self._notify_admins(subject, "\n\n".join(["About the model endpoint:", *lines]))
            )


def _backoff_delays() -> Iterator[float]:
    return itertools.chain(BACKOFF_SECONDS, itertools.repeat(BACKOFF_SECONDS[-1]))
