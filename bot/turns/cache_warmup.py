"""Inspects the endpoint and warms up its prefix cache, at start and when the cache was lost.

Puts the head of the prompts into it. Notifies the admins once of what is wrong with the endpoint. Its calls
are rows of the ledger that belong to no turn, and queue behind all others.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from bot.agent import prompt
from bot.attachments.images import PROBE_PICTURE, find_image_tokens
from bot.canvases import CANVAS_TOKENS
from bot.db.conversations.calls import NewCall
from bot.db.retry import retry_until_available
from bot.domain import WARMUP_PRIORITY, Image, LanguageModel, Message, ModelRequest, NotifyAdmins, Reply
from bot.errors import CallFailed, EndpointAway, KeyRefused, ServerAway
from bot.llm import diagnostics, server_api
from bot.llm.diagnostics import ServerSnapshot
from bot.tool_registry.toolbox import Toolbox
from bot.translations.translator import defer
from bot.turns.call_ledger import CallLedger
from tools.registry import measure_definition

START_DELAY_SECONDS = 1.0  # the first second after the start belongs to users who have waited for it
# Seconds between checks of an endpoint that is away; the last one repeats.
BACKOFF_SECONDS = (2.0, 5.0, 10.0, 30.0, 60.0)
MAX_ATTEMPTS = 5  # times a warm-up is started before it is given up

# A cache that keeps only the ends of prompts holds a head once two different prompts have shared it.
WARMUP_PROMPTS: Final = ("Are you there? One word.", "Ready? Say so in one word.")
PICTURE_PROMPT: Final = "Answer with the one word ready."
WARMUP_SESSION: Final = "warm-up"


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WarmupConfig:
    """The endpoint as the settings name it, the head of every prompt, and what of it is warmed up.

    `current_toolbox`: gives the tools that most conversations begin with now.
    `max_context_tokens`: of the longest prompt with its answer.
    `lineages`: those that turns begin with, by thinking; if empty, nothing is warmed up.
    """

    url: str
    api_key: str | None
    model: str | None
    system_text: str
    current_toolbox: Callable[[], Toolbox]
    max_context_tokens: int
    lineages: tuple[bool, ...]


class CacheWarmup:
    """Runs until cancelled. `model_name` is the ledger's name of the model.

    `on_image_tokens`: takes how many tokens the endpoint gives a picture; None: it is not asked.
    """

    def __init__(
        self,
        ledger: CallLedger,
        model: LanguageModel,
        config: WarmupConfig,
        *,
        model_name: Callable[[], str],
        notify_admins: NotifyAdmins,
        on_image_tokens: Callable[[int], None] | None = None,
    ) -> None:
        self._on_image_tokens = on_image_tokens
        self._ledger = ledger
        self._model = model
        self._config = config
        self._model_name = model_name
        self._notify_admins = notify_admins
        self._triggered = asyncio.Event()

    def trigger(self) -> None:
        """Inspect and warm up again: the endpoint's cache was lost, or the tools have changed."""
        self._triggered.set()

    async def run(self) -> None:
        """Inspect and warm up at the start and when triggered, waiting for an endpoint that is away."""
        await asyncio.sleep(START_DELAY_SECONDS)
        while True:
            try:
                await self._inspect_and_warm()
            except Exception:  # the gateway works without this, so it must not end because of it
                log.exception("the endpoint could not be looked at", extra={"action": "warmup.broken"})
            self._triggered.clear()  # what triggered it meanwhile is covered by now
            await self._triggered.wait()

    async def _inspect_and_warm(self) -> None:
        version = await self._wait_for_version()
        snapshot = await self._inspect(version)
        await self._report_problems("server", diagnostics.diagnose_server(snapshot))
        if diagnostics.can_answer(snapshot):
            snapshot = await self._warm_lineages(snapshot)
            if self._on_image_tokens is not None:
                await self._find_image_tokens(self._on_image_tokens)
            await self._report_problems("server calls", diagnostics.diagnose_calls(snapshot))

    async def _wait_for_version(self) -> str | None:
        """The version the endpoint names, once it is up; None: it names none."""
        delays = _backoff_delays()
        while True:
            with contextlib.suppress(ServerAway):
                if await server_api.check_health(self._config.url):
                    return await server_api.fetch_version(self._config.url)
            await asyncio.sleep(next(delays))

    async def _inspect(self, version: str | None) -> ServerSnapshot:
        config = self._config
        snapshot = ServerSnapshot(
            version, model=config.model, longest_prompt_tokens=config.max_context_tokens
        )
        try:
            models = await server_api.fetch_models(config.url, config.api_key)
        except KeyRefused as refused:
            return replace(snapshot, key_refused=str(refused))
        except ServerAway:
            return snapshot
        return replace(snapshot, models=models)

    async def _warm_lineages(self, snapshot: ServerSnapshot) -> ServerSnapshot:
        """Warm up every lineage; returns the snapshot with the replies.

        Begins again if the endpoint goes away meanwhile, up to MAX_ATTEMPTS times.
        """
        retry_reason: str | None = None
        for delay in itertools.islice(_backoff_delays(), MAX_ATTEMPTS):
            replies: list[tuple[bool, Reply]] = []
            try:
                for thinking in self._config.lineages:
                    for step, prompt_text in enumerate(WARMUP_PROMPTS, 1):
                        request = self._build_request(thinking, prompt_text)
                        reply = await self._call_model(request, step, retry_reason)
                        replies.append((thinking, reply))
            except EndpointAway as away:
                retry_reason = "away"
                log.info("the warm-up is put off: %s", away, extra={"action": "warmup.away"})
                await asyncio.sleep(delay)
                await self._wait_for_version()
            except CallFailed as refused:
                return replace(snapshot, replies=tuple(replies), refusal=str(refused))
            else:
                return replace(snapshot, replies=tuple(replies))
        log.warning("the endpoint was not warmed up, for it did not answer", extra={"action": "warmup.left"})
        return snapshot

    async def _find_image_tokens(self, on_image_tokens: Callable[[int], None]) -> None:
        """Show the model a picture; where none is taken, nothing is found."""
        question = Message("user", PICTURE_PROMPT, images=(Image("image/png", PROBE_PICTURE),))
        request = replace(
            self._build_request(False, ""), messages=(Message("system", ""), question), tools=()
        )
        with contextlib.suppress(CallFailed):
            reply = await self._call_model(request, 1, None)
            found = find_image_tokens(reply.usage.prompt_tokens)
            if found is not None:
                on_image_tokens(found)

    async def _call_model(self, request: ModelRequest, step: int, retry_reason: str | None) -> Reply:
        """One tiny call, stored in the ledger; raises CallFailed."""
        call_result = await self._ledger.call_once(
            self._model, request, self._build_row(request, step, retry_reason)
        )
        await self._ledger.close(call_result.closing)
        if isinstance(call_result.result, CallFailed):
            raise call_result.result
        return call_result.result

    def _build_request(self, thinking: bool, prompt_text: str) -> ModelRequest:
        """The head of a prompt exactly as turns send it, and a few words behind it."""
        tools = self._config.current_toolbox().definitions
        question = Message("user", prompt_text)
        return ModelRequest(
            messages=prompt.build_prompt(self._config.system_text, (), (question,)),
            tools=tools,
            tool_choice="auto" if tools else "none",
            thinking=thinking,
            max_tokens=CANVAS_TOKENS,
            session=WARMUP_SESSION,
            lane=WARMUP_SESSION,
            priority=WARMUP_PRIORITY,
        )

    def _build_row(self, request: ModelRequest, step: int, retry_reason: str | None) -> NewCall:
        system, question = request.messages
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
            chars_tools=sum(map(measure_definition, request.tools)),
            chars_history=len(question.text),
            images=len(question.images),
        )

    async def _report_problems(self, subject: str, lines: tuple[str, ...]) -> None:
        for line in lines:
            log.warning("%s", line, extra={"action": "server.complaint"})
        if lines:
            text = defer("About the model server:\n\n{findings}", findings="\n\n".join(lines))
            await retry_until_available(lambda: self._notify_admins(subject, text))


def _backoff_delays() -> Iterator[float]:
    return itertools.chain(BACKOFF_SECONDS, itertools.repeat(BACKOFF_SECONDS[-1]))
