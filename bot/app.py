"""The composition root: builds every part once, hands each what it needs, starts and stops them in order."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from bot import endpoints, window
from bot.agent import history
from bot.agent.decisions import Decisions
from bot.agent.fit import offer
from bot.agent.llm import Llm
from bot.agent.seats import Seats
from bot.agent.toolbox import Toolbox
from bot.aside import Aside
from bot.asking import Asking
from bot.attachments.reading import Reader
from bot.attachments.sound import Transcriber
from bot.db import calls, lock, migrating, people
from bot.db.engine import Database, connected, file_of
from bot.db.inbox import Arrival
from bot.db.notes import ChatNotes
from bot.db.notices import Notices
from bot.domain import ItemKind, Lane, Runner
from bot.endpoints import Endpoint
from bot.errors import SettingsRefused
from bot.inquiry import Inquiry, counting
from bot.opening import Ask, Plan
from bot.past import ChatPast
from bot.playing import Means
from bot.settings import Settings
from bot.summaries import Summaries
from bot.telegram import commands, wire
from bot.telegram.access import Access
from bot.telegram.acts import Reach
from bot.telegram.channel import ChatChannel
from bot.telegram.eyes import Eyes
from bot.telegram.files import Files
from bot.telegram.gathering import Gathering
from bot.telegram.gestures import Gestures
from bot.telegram.handlers import Handlers
from bot.telegram.intake import Intake, Ways
from bot.telegram.sender import Sender
from bot.telegram.tasks import Tasks
from bot.turns import Turns
from bot.warming import Wanted, Warming
from bot.way import Place, Places
from bot.worker import Worker
from tools.base import ToolContext
from tools.registry import Registry, discover

FILES_SHARE = 4  # the part of a prompt that the pictures of one turn may take, and as much its files
FIRST_LINK_MINUTES = 15
MESSAGE_TOKENS = 500  # the least room a prompt must leave for what a person writes

log = logging.getLogger(__name__)


async def run(settings: Settings, stop: asyncio.Event, say: Callable[[str], None] = log.warning) -> int:
    """Run the gateway until `stop` is set; returns the exit code. Raises a CanvasgramError when it cannot start.

    `say` is told how to become the first admin while there is none.
    """
    file = file_of(settings.database_url)
    file.parent.mkdir(parents=True, exist_ok=True)
    with lock.held(file):
        copy = migrating.migrate(settings.database_url)
        if copy:
            log.info("the database was migrated; a copy is at %s", copy, extra={"action": "app.migrated"})
        token, api_url = settings.telegram_token.get_secret_value(), settings.telegram_api_url
        async with connected(settings.database_url) as database, wire.connected(token, api_url, stop) as bot:
            if bot is not None:
                async with _model(settings) as model, endpoints.second(settings) as second:
                    house = await build(settings, database, bot, model, second)
                    if not house.admins:
                        say(await _first_link(database, bot))
                    async with _health(settings, house.intake):
                        await house.run(stop)
    return 0


@contextlib.asynccontextmanager
async def _model(settings: Settings) -> AsyncIterator[Llm]:
    model = Llm(settings.model_url, settings.model_name, Seats(settings.model_seats), api_key=_key(settings))
    try:
        yield model
    finally:
        await model.close()


def _key(settings: Settings) -> str | None:
    return settings.model_api_key.get_secret_value() if settings.model_api_key else None


@contextlib.asynccontextmanager
async def _health(settings: Settings, intake: Intake) -> AsyncIterator[None]:
    """Serve `/healthz` while the block runs, if HTTP_PORT is set."""
    async with contextlib.AsyncExitStack() as serving:
        if settings.http_port is not None:
            from bot.admin.health import health
            from bot.serving import serve

            app = serve(health(intake.is_fresh), host=settings.http_host, port=settings.http_port)
            try:
                await serving.enter_async_context(app)
            except OSError as error:
                why = f"HTTP_PORT {settings.http_port} cannot be used ({error.strerror}). Example: HTTP_PORT=8081"
                raise SettingsRefused(why) from None
        yield


@dataclass(frozen=True, slots=True)
class House:
    """The parts that run, side by side."""

    intake: Intake
    worker: Worker
    sender: Sender
    eyes: Eyes
    gestures: Gestures
    warming: Warming
    admins: tuple[int, ...]

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`, or until Telegram will not have us any more; then fetch nothing more, let turns end within
        their grace, deliver what is ready.
        """
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(self.sender.run(), name="sender")
            working = tasks.create_task(self.worker.run(), name="worker")
            try:
                await self._fetch(stop)
            finally:
                self.worker.drain()
                await asyncio.wait([working])
                self.sender.stop()
                await asyncio.wait([sending])

    async def _fetch(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            guests = [
                tasks.create_task(self.intake.run(), name="intake"),
                tasks.create_task(self.eyes.run(), name="eyes"),
                tasks.create_task(self.gestures.menus(self.admins), name="menus"),
                tasks.create_task(self.warming.run(), name="warming"),
            ]
            await stop.wait()
            for guest in guests:
                guest.cancel()


async def build(settings: Settings, database: Database, bot: wire.Client, model: Llm, second: Endpoint | None) -> House:
    """Put the house together on an open database, a Telegram client that knows its name, a model, perhaps a second."""
    notices = Notices(settings.admin_ids)
    access = Access(settings.access, settings.admin_ids)
    await access.load(database)
    async with database.transaction() as tx:
        await calls.abandon(tx, None, now=time.time())
    menus = [commands.menu(standing, second=second is not None) for standing in ("member", "admin")]
    gestures = Gestures(bot, members=menus[0], admins=menus[1])
    sender = Sender(
        database, bot, on_blocked=lambda lane: _unreachable(database, lane), on_trouble=lambda *it: aside.tell(*it)
    )
    aside = Aside(database, notices, sender.wake)
    registry = discover()
    _check_budget(settings, registry)
    places = _places(settings, database, (model, second), sender, aside)
    means = _means(settings, database, model, places, sender, registry)
    turns = Turns(means, wake=lambda: worker.wake())
    reach = Reach(
        access=access,
        notices=notices,
        turns=turns,
        gestures=gestures,
        wake_worker=lambda: worker.wake(),
        wake_sender=sender.wake,
        repeatable=lambda name: (tool := registry.get(name)) is not None and tool.repeatable,
        bot_name=bot.username,
        thinking=settings.thinking,
        composition=partial(
            window.composition,
            system=settings.system_prompt,
            toolbox=Toolbox(registry),
            budget=settings.prompt_budget,
        ),
        second=second,
    )
    handlers = Handlers(database, reach, _gathering(settings, bot), most_waiting=settings.waiting_messages)
    tasks = Tasks(database, access, turns)
    summaries = _summaries(settings, database, model, registry)
    runners: dict[ItemKind, Runner] = {"update": handlers, "task": tasks, "house": summaries}
    worker = Worker(database, runners, cut=turns.stop, give_up=aside)
    eyes = Eyes(bot, worker.busy)

    def arrived(arrivals: Sequence[Arrival]) -> None:
        eyes.look(arrivals)
        worker.wake()

    ways = Ways(arrived, lambda line: gestures.alarm(access.admins(), line))
    intake = Intake(bot, database, ways, most_waiting=settings.waiting_messages)
    warming = _warming(settings, database, model, registry, aside)
    return House(intake, worker, sender, eyes, gestures, warming, access.admins())


def _gathering(settings: Settings, bot: wire.Client) -> Gathering:
    key = settings.transcribe_api_key.get_secret_value() if settings.transcribe_api_key else None
    url, model = settings.transcribe_url, settings.transcribe_model
    share = settings.prompt_budget // FILES_SHARE
    return Gathering(
        Files(bot),
        Reader(),
        Transcriber(url, model, key) if url else None,
        most=min(settings.turn_images, share // history.TOKENS_AN_IMAGE),
        room=share * history.BYTES_A_TOKEN,
    )


def _check_budget(settings: Settings, registry: Registry) -> None:
    least = window.least(settings.system_prompt, Toolbox(registry))
    if least + MESSAGE_TOKENS > settings.prompt_budget:
        raise SettingsRefused(
            f"PROMPT_BUDGET of {settings.prompt_budget} tokens is too small: system text and tools alone take about "
            f"{least}, and a message needs {MESSAGE_TOKENS}. Example: PROMPT_BUDGET={2 * (least + MESSAGE_TOKENS)}"
        )


def _places(
    settings: Settings, database: Database, models: tuple[Llm, Endpoint | None], sender: Sender, aside: Aside
) -> Places:
    """The endpoints that answer turns, each with its way of being asked."""
    model, other = models
    first = Endpoint("main", settings.model_url, model, lambda: model.name)
    asking = Asking(database, model, wait=settings.model_wait, tell=aside.tell, continues=model.dialect.continuing)
    second = None
    if other is not None:
        called = "second model endpoint"
        patient = Asking(
            database, other.model, wait=settings.model_wait, tell=aside.tell, continues=False, called=called
        )
        second = Place(other, patient)
    return Places(database, Place(first, asking), second, sender.wake, for_hard=settings.fallback_for == "hard")


def _means(
    settings: Settings, database: Database, model: Llm, places: Places, sender: Sender, registry: Registry
) -> Means:
    def context_for(ask: Ask, call: str) -> ToolContext:
        notes = ChatNotes(database, ask.lane, author=ask.name, person=ask.person)
        past = ChatPast(database, ask.lane)
        return ToolContext(ask.lane.key, ask.name, ask.person, call, notes, past, lambda: datetime.now(UTC))

    return Means(
        database=database,
        places=places,
        channel_for=lambda lane, item, silent: ChatChannel(sender, lane, item, silent=silent),
        context_for=context_for,
        plan=Plan(
            system=settings.system_prompt,
            tools={tool.name: tool for tool in registry},
            offer=offer.index(registry),
            budget=settings.prompt_budget,
            steps=settings.turn_steps,
            max_tokens=settings.model_max_tokens,
            thinking=settings.thinking,
            canvases=settings.thinking_canvases,
            counts=True,
            reads=settings.thinking_read == "auto",
            sums=settings.summary == "on",
        ),
        inquire=_inquiry(settings, database, model),
        seconds=settings.turn_seconds,
    )


def _inquiry(settings: Settings, database: Database, model: Llm) -> Inquiry:
    url, key = settings.model_url, _key(settings)
    decisions = Decisions(url, key, settings.model_name)
    return Inquiry(database, counting(url, key), decisions, endpoint=url, model=lambda: model.name)


def _warming(settings: Settings, database: Database, model: Llm, registry: Registry, aside: Aside) -> Warming:
    order = (True, False) if settings.thinking == "on" else (False, True)
    lineages = order if settings.thinking != "off" else (False,)
    wanted = Wanted(
        url=settings.model_url,
        key=_key(settings),
        model=settings.model_name,
        system=settings.system_prompt,
        toolbox=Toolbox(registry),
        longest=settings.prompt_budget + settings.model_max_tokens,
        lineages=lineages if settings.warm_up == "on" else (),
    )
    return Warming(database, model, wanted, name=lambda: model.name, tell=aside.tell)


def _summaries(settings: Settings, database: Database, model: Llm, registry: Registry) -> Summaries:
    endpoint = Endpoint("main", settings.model_url, model, lambda: model.name)
    wanted, toolbox = settings.summary == "on", Toolbox(registry)
    return Summaries(database, endpoint, system=settings.system_prompt, toolbox=toolbox, wanted=wanted)


async def _first_link(database: Database, bot: wire.Client) -> str:
    code = await people.invite(database, role="admin", minutes=FIRST_LINK_MINUTES)
    link = f"https://t.me/{bot.username}?start={code}"
    return f"Nobody is admin yet. Whoever opens this link first, within {FIRST_LINK_MINUTES} minutes, is:\n  {link}"


async def _unreachable(database: Database, lane: Lane) -> None:
    async with database.transaction() as tx:
        await people.set_reachable(tx, lane.chat, reachable=False)
