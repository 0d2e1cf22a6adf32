"""Builds what answers: the endpoints and the ways to ask them, what every turn shares, warm-up and summaries.

The model's side of the composition root; app.py builds the rest around it.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from bot.attachments.reader import AttachmentReader
from bot.db.conversations.notes import ChatNotes
from bot.db.engine import Database, Transaction
from bot.domain import CANVAS_TOKENS, ChannelFactory, Lane
from bot.errors import AttachmentUnusable, SettingsRefused
from bot.llm.client import ModelClient
from bot.llm.typed_reads import ToolWorkEstimator
from bot.settings import Settings
from bot.tool_registry.registry import ToolRegistry
from bot.turns import context_window as window
from bot.turns.cache_warmup import CacheWarmup, WarmupConfig
from bot.turns.context_window import PromptBreakdown
from bot.turns.endpoint_router import EndpointRoute, EndpointRoutes
from bot.turns.endpoints import ModelEndpoint
from bot.turns.execution import TurnDependencies
from bot.turns.history_search import HistorySearch
from bot.turns.model_caller import ModelCaller, NotifyAdmins
from bot.turns.preflight import Preflight, build_token_counter
from bot.turns.start import TurnConfig, TurnRequest
from bot.turns.summaries import Summarizer
from bot.turns.tool_policy import ToolPolicyDependencies
from bot.usage.timers import TurnTimers
from tools.base import Picture, Schedules, ToolContext, ToolError

MIN_MESSAGE_TOKENS = 500  # the least room a prompt must leave for what a person writes


@dataclass(frozen=True, slots=True)
class TurnFactory:
    """What it is built of; `second` is there where FALLBACK_URL is set, `tell` reaches the admins' feed,
    `reader` makes pictures small that tools found; `schedules` is where tools of a turn keep what is to be
    done later.
    """

    settings: Settings
    database: Database
    model: ModelClient
    fallback: ModelEndpoint | None
    tool_registry: ToolRegistry
    notify_admins: NotifyAdmins
    reader: AttachmentReader
    schedules_for: Callable[[TurnRequest], Schedules]

    def check_budget(self) -> None:
        """Raise SettingsRefused where PROMPT_BUDGET leaves no room for a message."""
        budget = self.settings.prompt_budget
        least = window.estimate_minimum_tokens(
            self.settings.system_prompt, self.tool_registry.build_largest_toolbox()
        )
        if least + MIN_MESSAGE_TOKENS > budget:
            raise SettingsRefused(
                f"PROMPT_BUDGET of {budget} tokens is too small: system text and tools alone take about {least}, and a "
                f"message needs {MIN_MESSAGE_TOKENS}. Example: PROMPT_BUDGET={2 * (least + MIN_MESSAGE_TOKENS)}"
            )

    @property
    def max_canvases(self) -> int:
        """What a turn takes at most if no call fails: a thought each step, and an answer with twice the room."""
        settings = self.settings
        return settings.turn_steps * (
            settings.thinking_canvases + 2 * -(-settings.model_max_tokens // CANVAS_TOKENS)
        )

    def build_dependencies(
        self,
        channel_for: ChannelFactory,
        wake_sender: Callable[[Lane], None],
        on_cache_lost: Callable[[], None],
        timers: TurnTimers,
        policy_dependencies: ToolPolicyDependencies,
    ) -> TurnDependencies:
        """What turns work with; `wake` is told that something is stored for a lane to be sent, `cold` that
        the first endpoint came back with an empty cache; `guard` says which calls of tools run.
        """
        return TurnDependencies(
            database=self.database,
            routes=self._build_routes(wake_sender, on_cache_lost),
            channel_for=channel_for,
            context_for=self._build_tool_context,
            config=self._build_config(),
            preflight=self._build_preflight(),
            policy_dependencies=policy_dependencies,
            turn_seconds=self.settings.turn_seconds,
            timers=timers,
        )

    def build_cache_warmup(self) -> CacheWarmup:
        """The warm-up of each lineage; of none where WARM_UP is off."""
        settings = self.settings
        order = (True, False) if settings.thinking == "on" else (False, True)
        lineages = order if settings.thinking != "off" else (False,)
        wanted = WarmupConfig(
            url=settings.model_url,
            api_key=self._api_key,
            model=settings.model_name,
            system_text=settings.system_prompt,
            current_toolbox=self.tool_registry.build_member_toolbox,
            max_context_tokens=settings.prompt_budget + settings.model_max_tokens,
            lineages=lineages if settings.warm_up == "on" else (),
        )
        warming = CacheWarmup(
            self.database,
            self.model,
            wanted,
            model_name=lambda: self.model.name,
            notify_admins=self.notify_admins,
        )
        self.tool_registry.on_members_changed = warming.trigger
        return warming

    def build_summarizer(self) -> Summarizer:
        """The runner of the house's own items."""
        system = self.settings.system_prompt
        wanted = self.settings.summary == "on"
        return Summarizer(
            self.database,
            self._main_endpoint,
            system=system,
            tool_registry=self.tool_registry,
            is_enabled=wanted,
        )

    async def load_prompt_breakdown(self, tx: Transaction, lane: Lane) -> PromptBreakdown:
        """What a lane's next prompt is made of."""
        settings = self.settings
        kit = self.tool_registry.make_toolbox_builder(lane.chat)
        return await window.load_prompt_breakdown(
            tx, lane, settings.system_prompt, kit, settings.prompt_budget
        )

    @property
    def _api_key(self) -> str | None:
        key = self.settings.model_api_key
        if key:
            return key.get_secret_value()
        return None

    @property
    def _main_endpoint(self) -> ModelEndpoint:
        return ModelEndpoint("main", self.settings.model_url, self.model, lambda: self.model.name)

    def _build_routes(
        self, wake_sender: Callable[[Lane], None], on_cache_lost: Callable[[], None]
    ) -> EndpointRoutes:
        wait = self.settings.model_wait
        second = None
        asking = ModelCaller(
            self.database,
            self.model,
            patience_seconds=wait,
            notify_admins=self.notify_admins,
            on_cache_lost=on_cache_lost,
        )
        first = EndpointRoute(self._main_endpoint, asking, can_continue=self.model.dialect.continuation)
        if self.fallback is not None:
            called = "second model endpoint"
            other = ModelCaller(
                self.database,
                self.fallback.model,
                patience_seconds=wait,
                notify_admins=self.notify_admins,
                endpoint_label=called,
            )
            second = EndpointRoute(self.fallback, other, can_continue=False)
        return EndpointRoutes(
            self.database,
            first,
            second,
            wake_sender,
            fallback_for_thinking=self.settings.fallback_for == "hard",
        )

    def _build_config(self) -> TurnConfig:
        settings = self.settings
        return TurnConfig(
            system=settings.system_prompt,
            tool_registry=self.tool_registry,
            prompt_budget=settings.prompt_budget,
            max_steps=settings.turn_steps,
            max_tokens=settings.model_max_tokens,
            thinking=settings.thinking,
            thinking_canvases=settings.thinking_canvases,
            can_count_tokens=True,
            can_estimate_tool_work=settings.thinking_read == "auto",
            summaries_enabled=settings.summary == "on",
        )

    def _build_tool_context(self, request: TurnRequest, call_id: str, call_position: str) -> ToolContext:
        notes = ChatNotes(self.database, request.lane, author=request.name, person=request.person)
        past = HistorySearch(self.database, request.lane)
        # Turns are counted anew in another database, so the moment of the message is a part of it.
        key = hashlib.sha256(
            f"{request.lane.key} {request.items[0].received_at} {call_position}".encode()
        ).hexdigest()[:32]
        now = partial(datetime.now, UTC)
        later = self.schedules_for(request)
        return ToolContext(
            request.lane.key,
            request.name,
            request.person,
            call_id,
            notes,
            past,
            now,
            key,
            self._shrink_picture,
            later,
        )

    async def _shrink_picture(self, picture: Picture) -> Picture:
        try:
            small = await self.reader.read_image(picture.data)
        except AttachmentUnusable as why:
            raise ToolError(str(why)) from why
        assert small.data is not None
        return Picture(small.media_type, small.data)

    def _build_preflight(self) -> Preflight:
        url = self.settings.model_url
        decisions = ToolWorkEstimator(url, self._api_key, self.settings.model_name)
        return Preflight(
            self.database,
            build_token_counter(url, self._api_key),
            decisions,
            endpoint_name=url,
            model_name=lambda: self.model.name,
        )
