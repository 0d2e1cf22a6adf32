"""Builds what turns need: endpoints, their callers, what every turn shares, warm-up, summaries.

A part of the composition root; factory.py builds the rest.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from bot.agent import history
from bot.attachments.reader import AttachmentReader
from bot.attachments.transcription import build_transcriber
from bot.chat.outside_speech import OutsideSpeech
from bot.db.conversations.notes import ChatNotes
from bot.db.engine import Database
from bot.db.people import people
from bot.domain import PEOPLE_PRIORITY, ChannelFactory, NotifyAdmins
from bot.errors import AttachmentUnusable, SettingsRefused
from bot.llm.client import ModelClient
from bot.llm.endpoint_watch import EndpointWatch, WatchedEndpoint
from bot.llm.read_gains import CLEAR
from bot.settings import Settings, reveal
from bot.telegram.incoming.attachment_loader import AttachmentLoader
from bot.telegram.incoming.downloads import FileDownloader
from bot.tool_registry.registry import ToolRegistry
from bot.turns import context_window
from bot.turns.address_judge import AddressJudge
from bot.turns.cache_warmup import CacheWarmup, WarmupConfig
from bot.turns.call_ledger import CallLedger
from bot.turns.context_window import PromptBreakdowns
from bot.turns.endpoint_router import EndpointRoute, EndpointRoutes
from bot.turns.endpoints import ModelEndpoint, is_private_host, parse_host
from bot.turns.history_search import HistorySearch
from bot.turns.model_caller import ModelCaller
from bot.turns.open_turn import TurnDependencies
from bot.turns.preflight import Preflight
from bot.turns.recorded_reads import RecordedReads
from bot.turns.seat_queue import SeatTimes
from bot.turns.summaries import Summarizer
from bot.turns.tool_policy import ToolPolicyDependencies
from bot.turns.tool_questions import ToolQuestions
from bot.turns.turn_request import TurnConfig, TurnRequest
from bot.usage.timers import TurnTimers
from tools.base import Picture, Schedules, ToolContext, ToolError

FILES_DIVISOR = 4  # a prompt divided by this is what the files of a turn may take
HEAD_TOKENS = 1000  # about those of system text and tools; pictures may take half of the rest
MAX_STEPS = 8  # model calls of one turn
MIN_MESSAGE_TOKENS = 500  # tokens a prompt must leave at least for what a user writes
MODEL_WAIT_SECONDS = 600.0  # that an endpoint may be away before a turn gives up


@dataclass(frozen=True, slots=True)
class TurnFactory:
    """Built once.

    `ledger`: stores the model calls.
    `reads`: asks what a model answers in one step.
    `fallback`: the second endpoint, where FALLBACK_URL is set.
    `notify_admins`: posts a subject and a text to the admins.
    `reader`: shrinks the images that tools found.
    `schedules_for`: gives the tools of a turn the jobs they may see and change.
    `tool_questions`: puts what running tools ask to people.
    `has_access`: whether somebody may use the bot, also outside of groups that are open to all.
    """

    settings: Settings
    database: Database
    ledger: CallLedger
    model: ModelClient
    reads: RecordedReads
    fallback: ModelEndpoint | None
    tool_registry: ToolRegistry
    notify_admins: NotifyAdmins
    reader: AttachmentReader
    schedules_for: Callable[[TurnRequest], Schedules]
    tool_questions: ToolQuestions
    has_access: Callable[[int], bool]

    def check_budget(self) -> None:
        """Raise SettingsRefused where PROMPT_BUDGET leaves too few tokens for a message."""
        budget = self.settings.prompt_budget
        fixed_tokens = context_window.estimate_minimum_tokens(
            self.settings.system_prompt, self.tool_registry.build_largest_toolbox()
        )
        needed_tokens = fixed_tokens + MIN_MESSAGE_TOKENS
        if needed_tokens > budget:
            raise SettingsRefused(
                f"PROMPT_BUDGET of {budget} tokens is too small: system text and tools alone take about "
                f"{fixed_tokens}, and a message needs {MIN_MESSAGE_TOKENS}. "
                f"Example: PROMPT_BUDGET={2 * needed_tokens}"
            )

    @property
    def max_canvases(self) -> int:
        """Canvases a turn takes at most if no call fails."""
        return MAX_STEPS * self.settings.max_reply_canvases

    def build_dependencies(
        self,
        channel_for: ChannelFactory,
        on_cache_lost: Callable[[], None],
        timers: TurnTimers,
        policy_dependencies: ToolPolicyDependencies,
    ) -> TurnDependencies:
        """What turns work with; `on_cache_lost`: called when the main endpoint has an empty cache again."""
        return TurnDependencies(
            database=self.database,
            routes=self._build_routes(on_cache_lost),
            channel_for=channel_for,
            context_for=self._build_tool_context,
            config=self._build_config(),
            preflight=Preflight(self.model, self.reads),
            policy_dependencies=policy_dependencies,
            turn_seconds=self.settings.turn_seconds,
            timers=timers,
        )

    def build_cache_warmup(self) -> CacheWarmup:
        """The warm-up of each lineage that turns begin with; of none where WARM_UP is off."""
        settings = self.settings
        config = WarmupConfig(
            url=settings.model_url,
            api_key=reveal(settings.model_api_key),
            model=settings.model_name,
            system_text=settings.system_prompt,
            current_toolbox=self.tool_registry.build_member_toolbox,
            max_context_tokens=settings.max_context_tokens,
            lineages=self._list_lineages() if settings.warm_up == "on" else (),
        )
        follows_server = settings.warm_up == "on" and settings.image_tokens == "auto"
        cache_warmup = CacheWarmup(
            self.ledger,
            self.model,
            config,
            model_name=lambda: self.model.name,
            notify_admins=self.notify_admins,
            on_image_tokens=self._set_image_tokens if follows_server else None,
        )
        self.tool_registry.on_members_changed = cache_warmup.trigger
        return cache_warmup

    def _set_image_tokens(self, image_tokens: int) -> None:
        self.reader.image_tokens = image_tokens

    def _list_lineages(self) -> tuple[bool, ...]:
        """The lineages turns may begin with, by thinking, in the order of their warm-up."""
        match self.settings.thinking:
            case "on":
                return (True, False)
            case "auto":
                return (False, True)
            case "off":
                return (False,)

    def build_summarizer(self) -> Summarizer:
        """The runner of summary items."""
        return Summarizer(
            self.database,
            self.ledger,
            self._main_endpoint,
            system=self.settings.system_prompt,
            tool_registry=self.tool_registry,
            is_enabled=self.settings.summary == "on",
        )

    def build_prompt_breakdowns(self) -> PromptBreakdowns:
        """What tells the parts of a lane's next prompt."""
        return PromptBreakdowns(self._build_config())

    def build_endpoint_watch(self) -> EndpointWatch:
        """The watch over the main endpoint."""
        settings = self.settings
        api_key = reveal(settings.model_api_key)
        return EndpointWatch(
            WatchedEndpoint(settings.model_url, api_key, settings.model_name, settings.model_seats)
        )

    @property
    def _main_endpoint(self) -> ModelEndpoint:
        return ModelEndpoint("main", self.settings.model_url, self.model, lambda: self.model.name)

    def _build_routes(self, on_cache_lost: Callable[[], None]) -> EndpointRoutes:
        main_caller = ModelCaller(
            self.ledger,
            self.model,
            patience_seconds=MODEL_WAIT_SECONDS,
            notify_admins=self.notify_admins,
            on_cache_lost=on_cache_lost,
        )
        main_caller.seat_times = SeatTimes(self.database, self.settings.model_url, self.model.seats)
        main = EndpointRoute(self._main_endpoint, main_caller, can_continue=self.model.dialect.continuation)
        fallback: EndpointRoute | None = None
        if self.fallback is not None:
            fallback_caller = ModelCaller(
                self.ledger,
                self.fallback.model,
                patience_seconds=MODEL_WAIT_SECONDS,
                notify_admins=self.notify_admins,
                endpoint_label="second model endpoint",
            )
            fallback = EndpointRoute(self.fallback, fallback_caller, can_continue=False)
        return EndpointRoutes(
            self.database,
            main,
            fallback,
            fallback_for_thinking=self.settings.fallback_for == "hard",
        )

    def _build_config(self) -> TurnConfig:
        settings = self.settings
        return TurnConfig(
            system=settings.system_prompt,
            tool_registry=self.tool_registry,
            prompt_budget=settings.prompt_budget,
            max_steps=MAX_STEPS,
            max_tokens=settings.model_max_tokens,
            thinking=settings.thinking,
            can_count_tokens=True,
            can_estimate_heavy_work=settings.thinking_read == "auto",
            can_choose_tools=lambda: self.reads.find_clearness("tools") > CLEAR,
            summaries_enabled=settings.summary == "on",
            speech_enabled=settings.speech_url is not None,
            time_zone=settings.time_zone,
            image_tokens=lambda: self.reader.image_tokens,
        )

    def _build_tool_context(self, request: TurnRequest, call_id: str, call_position: str) -> ToolContext:
        # Another database counts its turns from the beginning, so the moment of the message is part of the
        # key.
        key = f"{request.lane.key} {request.items[0].received_at} {call_position}"
        is_due_task = request.priority != PEOPLE_PRIORITY  # nobody is there to be asked
        return ToolContext(
            chat=request.lane.key,
            person=request.name,
            person_id=request.person,
            call_id=call_id,
            notes=ChatNotes(self.database, request.lane, author=request.name, person=request.person),
            past=HistorySearch(
                self.database,
                request.lane,
                has_access=self.has_access(request.person),
                reads=self.reads,
            ),
            now=partial(self._find_local_time, request.person),
            key=hashlib.sha256(key.encode()).hexdigest()[:32],
            see=self._shrink_picture,
            schedules=self.schedules_for(request),
            ask=None if is_due_task else partial(self.tool_questions.ask, request.lane, request.person),
        )

    async def _find_local_time(self, person: int) -> datetime:
        async with self.database.read_transaction() as tx:
            zone = await people.load_zone(tx, person, self.settings.time_zone)
        return datetime.now(zone)

    async def _shrink_picture(self, picture: Picture) -> Picture:
        try:
            image = await self.reader.read_image(picture.data)
        except AttachmentUnusable as error:
            raise ToolError(str(error)) from error
        assert image.data is not None
        return Picture(image.media_type, image.data)

    def build_attachment_loader(self, downloader: FileDownloader) -> AttachmentLoader:
        """Build what fetches and reads the attachments of messages."""
        settings = self.settings
        max_tokens = settings.prompt_budget // FILES_DIVISOR
        return AttachmentLoader(
            downloader,
            self.reader,
            build_transcriber(settings),
            count_images=self._count_images,
            max_text_bytes=max_tokens * history.BYTES_PER_TOKEN,
        )

    def build_outside_speech(self) -> OutsideSpeech:
        """What of the services for sound is outside the own network."""
        urls = (self.settings.transcribe_url, self.settings.speech_url)
        hosts = [parse_host(url) if url else "" for url in urls]
        return OutsideSpeech(*("" if is_private_host(host) else host for host in hosts))

    def _count_images(self) -> int:
        max_tokens = (self.settings.prompt_budget - HEAD_TOKENS) // 2
        return min(self.settings.turn_images, max_tokens // self.reader.image_tokens)

    def build_address_judge(self) -> AddressJudge:
        """Build what judges whether messages of groups are for the assistant."""
        return AddressJudge(self.reads, self.model.seats)
