"""Builds what answers: the endpoints and the ways to ask them, what every turn shares, warm-up and summaries.

The model's side of the composition root; app.py builds the rest around it.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from bot.attachments.reader import Reader
from bot.db.conversations.notes import ChatNotes
from bot.db.engine import Database, Transaction
from bot.domain import CANVAS, ChannelFor, Lane
from bot.errors import AttachmentUnusable, SettingsRefused
from bot.llm.client import Llm
from bot.llm.typed_reads import Decisions
from bot.settings import Settings
from bot.tool_registry.registry import Catalogue
from bot.turns import context_window as window
from bot.turns.cache_warmup import Wanted, Warming
from bot.turns.context_window import Composition
from bot.turns.endpoint_router import Place, Places
from bot.turns.endpoints import Endpoint
from bot.turns.execution import Means
from bot.turns.history_search import ChatPast
from bot.turns.model_caller import Asking, Tell
from bot.turns.preflight import Inquiry, counting
from bot.turns.start import Ask, Plan
from bot.turns.summaries import Summaries
from bot.turns.tool_policy import Guard
from bot.usage.timers import Watches
from tools.base import Picture, Schedules, ToolContext, ToolError

MESSAGE_TOKENS = 500  # the least room a prompt must leave for what a person writes


@dataclass(frozen=True, slots=True)
class Answering:
    """What it is built of; `second` is there where FALLBACK_URL is set, `tell` reaches the admins' feed,
    `reader` makes pictures small that tools found; `schedules` is where tools of a turn keep what is to be
    done later.
    """

    settings: Settings
    database: Database
    model: Llm
    second: Endpoint | None
    catalogue: Catalogue
    tell: Tell
    reader: Reader
    schedules: Callable[[Ask], Schedules]

    def check_budget(self) -> None:
        """Raise SettingsRefused where PROMPT_BUDGET leaves no room for a message."""
        budget = self.settings.prompt_budget
        least = window.least(self.settings.system_prompt, self.catalogue.largest())
        if least + MESSAGE_TOKENS > budget:
            raise SettingsRefused(
                f"PROMPT_BUDGET of {budget} tokens is too small: system text and tools alone take about {least}, and a "
                f"message needs {MESSAGE_TOKENS}. Example: PROMPT_BUDGET={2 * (least + MESSAGE_TOKENS)}"
            )

    @property
    def most_canvases(self) -> int:
        """What a turn takes at most if no call fails: a thought each step, and an answer with twice the room."""
        settings = self.settings
        return settings.turn_steps * (
            settings.thinking_canvases + 2 * -(-settings.model_max_tokens // CANVAS)
        )

    def means(
        self,
        channel_for: ChannelFor,
        wake: Callable[[Lane], None],
        cold: Callable[[], None],
        watches: Watches,
        guard: Guard,
    ) -> Means:
        """What turns work with; `wake` is told that something is stored for a lane to be sent, `cold` that
        the first endpoint came back with an empty cache; `guard` says which calls of tools run.
        """
        return Means(
            database=self.database,
            places=self._places(wake, cold),
            channel_for=channel_for,
            context_for=self._context,
            plan=self._plan(),
            inquire=self._inquiry(),
            guard=guard,
            seconds=self.settings.turn_seconds,
            watches=watches,
        )

    def warming(self) -> Warming:
        """The warm-up of each lineage; of none where WARM_UP is off."""
        settings = self.settings
        order = (True, False) if settings.thinking == "on" else (False, True)
        lineages = order if settings.thinking != "off" else (False,)
        wanted = Wanted(
            url=settings.model_url,
            key=self._key,
            model=settings.model_name,
            system=settings.system_prompt,
            toolbox=self.catalogue.of_members,
            longest=settings.prompt_budget + settings.model_max_tokens,
            lineages=lineages if settings.warm_up == "on" else (),
        )
        warming = Warming(self.database, self.model, wanted, name=lambda: self.model.name, tell=self.tell)
        self.catalogue.members_changed = warming.again
        return warming

    def summaries(self) -> Summaries:
        """The runner of the house's own items."""
        system = self.settings.system_prompt
        wanted = self.settings.summary == "on"
        return Summaries(self.database, self._first, system=system, catalogue=self.catalogue, wanted=wanted)

    async def composition(self, tx: Transaction, lane: Lane) -> Composition:
        """What a lane's next prompt is made of."""
        settings = self.settings
        kit = self.catalogue.kit_of(lane.chat)
        return await window.composition(tx, lane, settings.system_prompt, kit, settings.prompt_budget)

    @property
    def _key(self) -> str | None:
        key = self.settings.model_api_key
        if key:
            return key.get_secret_value()
        return None

    @property
    def _first(self) -> Endpoint:
        return Endpoint("main", self.settings.model_url, self.model, lambda: self.model.name)

    def _places(self, wake: Callable[[Lane], None], cold: Callable[[], None]) -> Places:
        wait = self.settings.model_wait
        second = None
        asking = Asking(self.database, self.model, wait=wait, tell=self.tell, cold=cold)
        first = Place(self._first, asking, continues=self.model.dialect.continuing)
        if self.second is not None:
            called = "second model endpoint"
            other = Asking(self.database, self.second.model, wait=wait, tell=self.tell, called=called)
            second = Place(self.second, other, continues=False)
        return Places(self.database, first, second, wake, for_hard=self.settings.fallback_for == "hard")

    def _plan(self) -> Plan:
        settings = self.settings
        return Plan(
            system=settings.system_prompt,
            catalogue=self.catalogue,
            budget=settings.prompt_budget,
            steps=settings.turn_steps,
            max_tokens=settings.model_max_tokens,
            thinking=settings.thinking,
            canvases=settings.thinking_canvases,
            counts=True,
            reads=settings.thinking_read == "auto",
            sums=settings.summary == "on",
        )

    def _context(self, ask: Ask, call: str, place: str) -> ToolContext:
        notes = ChatNotes(self.database, ask.lane, author=ask.name, person=ask.person)
        past = ChatPast(self.database, ask.lane)
        # Turns are counted anew in another database, so the moment of the message is a part of it.
        key = hashlib.sha256(f"{ask.lane.key} {ask.items[0].received_at} {place}".encode()).hexdigest()[:32]
        now = partial(datetime.now, UTC)
        later = self.schedules(ask)
        return ToolContext(ask.lane.key, ask.name, ask.person, call, notes, past, now, key, self._see, later)

    async def _see(self, picture: Picture) -> Picture:
        try:
            small = await self.reader.picture(picture.data)
        except AttachmentUnusable as why:
            raise ToolError(str(why)) from why
        assert small.data is not None
        return Picture(small.media_type, small.data)

    def _inquiry(self) -> Inquiry:
        url = self.settings.model_url
        decisions = Decisions(url, self._key, self.settings.model_name)
        return Inquiry(
            self.database, counting(url, self._key), decisions, endpoint=url, model=lambda: self.model.name
        )
