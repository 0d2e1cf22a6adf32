"""The composition root: opens database, Telegram and endpoints, builds every part once, hands each what it
needs.
"""

import asyncio
import contextlib
import importlib.metadata
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from bot.agent import history
from bot.app import tool_factory as workshop
from bot.app.gateway import House
from bot.app.maintenance_factory import Housekeeping
from bot.app.turn_factory import Answering
from bot.attachments.reader import Reader
from bot.attachments.transcription import Transcriber
from bot.db import lock
from bot.db import migrate as migrating
from bot.db.conversations import calls
from bot.db.engine import Database, connected, file_of
from bot.db.people import people
from bot.db.queues.admin_notices import Notices
from bot.db.queues.inbox import Arrival
from bot.domain import ItemKind, Lane, Runner
from bot.errors import SettingsRefused
from bot.jobs.outcomes import Settling
from bot.jobs.schedule_tool import ChatSchedules
from bot.jobs.scheduler import Schedule
from bot.jobs.user_jobs import Bounds, Diary, Owner
from bot.llm.client import Llm
from bot.llm.seats import Seats
from bot.queue.dead_letters import Aside
from bot.queue.worker import Worker
from bot.settings import Settings
from bot.telegram import client as wire
from bot.telegram.access import Access
from bot.telegram.actions import Reach
from bot.telegram.best_effort_calls import Gestures
from bot.telegram.commands import registry as commands
from bot.telegram.delivery.channel import ChatChannel
from bot.telegram.delivery.sender import Sender
from bot.telegram.incoming.attachment_loader import Gathering
from bot.telegram.incoming.downloads import Files
from bot.telegram.incoming.polling import Intake, Ways
from bot.telegram.reactions import Eyes
from bot.telegram.runners.quota import Portions, Rations
from bot.telegram.runners.reminders import Reminders
from bot.telegram.runners.tasks import Tasks
from bot.telegram.runners.updates import Handlers
from bot.turns import endpoints
from bot.turns.endpoints import Endpoint
from bot.turns.runner import Turns
from bot.turns.start import Ask
from bot.usage.recorder import Keeper
from bot.usage.timers import Watches

FILES_SHARE = 4  # the part of a prompt that the pictures of one turn may take, and as much its files
FIRST_LINK_MINUTES = 15

log = logging.getLogger(__name__)


async def run(settings: Settings, stop: asyncio.Event, say: Callable[[str], None] = log.warning) -> int:
    """Run the gateway until `stop` is set; returns the exit code. Raises a CanvasgramError when it cannot
    start.

    `say` is told how to become the first admin while there is none.
    """
    watches = Watches(time.time())
    file = file_of(settings.database_url)
    file.parent.mkdir(parents=True, exist_ok=True)
    with lock.held(file):
        copy = migrating.migrate(settings.database_url)
        if copy:
            log.info("the database was migrated; a copy is at %s", copy, extra={"action": "app.migrated"})
        token = settings.telegram_token.get_secret_value()
        api_url = settings.telegram_api_url
        async with connected(settings.database_url) as database, wire.connected(token, api_url, stop) as bot:
            if bot is not None:
                async with _model(settings) as model, endpoints.second(settings) as second:
                    house = await build(settings, database, bot, (model, second), watches)
                    if not house.admins:
                        say(await _first_link(database, bot))
                    async with _pages(settings, house, database, _seats(model, second)):
                        await house.run(stop)
    return 0


@contextlib.asynccontextmanager
async def _model(settings: Settings) -> AsyncIterator[Llm]:
    if settings.model_api_key:
        key = settings.model_api_key.get_secret_value()
    else:
        key = None
    model = Llm(settings.model_url, settings.model_name, Seats(settings.model_seats), api_key=key)
    try:
        yield model
    finally:
        await model.close()


def _seats(model: Llm, second: Endpoint | None) -> Mapping[str, Seats]:
    """The seats of each endpoint."""
    other = second.model if second is not None else None
    return {"main": model.seats} | ({"fallback": other.seats} if isinstance(other, Llm) else {})


@contextlib.asynccontextmanager
async def _pages(
    settings: Settings, house: House, database: Database, seats: Mapping[str, Seats]
) -> AsyncIterator[None]:
    """Serve `/healthz` and `/metrics` while the block runs, if HTTP_PORT is set."""
    async with contextlib.AsyncExitStack() as serving:
        if settings.http_port is not None:
            from bot.db.usage.ended import Lookout
            from bot.http_server import serve
            from bot.monitoring.health import pages
            from bot.monitoring.metrics import Metrics

            lookout = Lookout(database)
            await lookout.begin()
            metrics = Metrics(lookout, seats, house.catalogue.knows, importlib.metadata.version("canvasgram"))
            app = serve(
                pages(house.intake.is_fresh, metrics), host=settings.http_host, port=settings.http_port
            )
            try:
                await serving.enter_async_context(app)
            except OSError as error:
                why = f"HTTP_PORT {settings.http_port} cannot be used ({error.strerror}). Example: HTTP_PORT=8081"
                raise SettingsRefused(why) from None
        yield


async def build(
    settings: Settings,
    database: Database,
    bot: wire.Client,
    models: tuple[Llm, Endpoint | None],
    watches: Watches,
) -> House:
    """Put the house together on an open database, a Telegram client that knows its name, a model, perhaps a
    second.
    """
    model, second = models
    notices = Notices(settings.admin_ids)
    access = Access(settings.access, settings.admin_ids)
    await access.load(database)
    async with database.transaction() as tx:
        await calls.abandon(tx, None, now=time.time())
    gestures = _gestures(bot, second)
    keeper = Keeper(database, watches)
    await keeper.begin()
    sender = Sender(
        database,
        bot,
        on_blocked=lambda lane: _unreachable(database, lane),
        on_trouble=lambda *it: aside.tell(*it),
        watches=watches,
    )
    aside = Aside(database, notices, sender.wake, watches)
    asking = workshop.asking(notices, access, sender.wake, lambda: worker.wake(), watches)
    tools = await workshop.opened(settings, database, asking, aside.tell)
    later = await _later(settings, database, sender, lambda: worker.wake())
    answering = Answering(
        settings, database, model, second, tools.catalogue, aside.tell, Reader(), later.schedules
    )
    answering.check_budget()
    warming = answering.warming()
    turns = Turns(
        answering.means(partial(ChatChannel, sender), sender.wake, warming.again, watches, tools.guard),
        wake=lambda: worker.wake(),
    )
    rations = Rations(
        turns,
        database,
        access,
        portions=Portions(settings.canvases_a_day, answering.most_canvases),
        wake_sender=sender.wake,
    )
    housekeeping = Housekeeping(settings, database, warming, aside.tell)
    reach = Reach(
        access=access,
        notices=notices,
        turns=rations,
        gestures=gestures,
        wake_worker=lambda: worker.wake(),
        wake_sender=sender.wake,
        repeatable=tools.repeatable,
        bot_name=bot.username,
        thinking=settings.thinking,
        composition=answering.composition,
        approvals=tools.approvals,
        diary=later.diary,
        second=second,
        canvases_a_day=settings.canvases_a_day,
        own=tools.own,
        renew=tools.catalogue.renew,
        limits_changed=rations.changed,
        copies_until=housekeeping.keeping.copies_until,
    )
    runners: dict[ItemKind, Runner] = {
        "update": Handlers(
            database,
            reach,
            _gathering(settings, bot, answering.reader),
            most_waiting=settings.waiting_messages,
        ),
        "reminder": later.settling.behind(Reminders(database, access, later.diary, sender.wake)),
        "task": later.settling.behind(Tasks(database, access, rations, asking.ended)),
        "house": housekeeping.jobs(
            notices, {"summary": answering.summaries(), **tools.errands(gestures, sender.wake)}, sender.wake
        ),
    }
    worker = Worker(
        database, runners, cut=turns.stop, yields=turns.yields, give_up=later.settling.behind_giving_up(aside)
    )
    eyes = Eyes(bot, worker.busy)

    def arrived(arrivals: Sequence[Arrival]) -> None:
        eyes.look(arrivals)
        worker.wake()

    ways = Ways(arrived, lambda line: gestures.alarm(access.admins(), line))
    intake = Intake(bot, database, ways, most_waiting=settings.waiting_messages)
    return House(
        intake=intake,
        worker=worker,
        sender=sender,
        eyes=eyes,
        gestures=gestures,
        warming=warming,
        keeper=keeper,
        reconciliation=housekeeping.reconciliation,
        schedule=later.schedule,
        rota=housekeeping.rota(later.schedule, worker.wake),
        approvals=tools.approvals,
        admins=access.admins(),
        catalogue=tools.catalogue,
    )


def _gestures(bot: wire.Client, second: Endpoint | None) -> Gestures:
    members, admins = (commands.menu(standing, second=second is not None) for standing in ("member", "admin"))
    return Gestures(bot, members=members, admins=admins)


@dataclass(frozen=True, slots=True)
class _Later:
    """What is done later: what wakes it, what people keep there, and what came of it."""

    schedule: Schedule
    diary: Diary
    settling: Settling
    wake_sender: Callable[[Lane], None]

    def schedules(self, ask: Ask) -> ChatSchedules:
        """What the tools of a turn keep there."""
        return ChatSchedules(self.diary, Owner(ask.person, ask.name, ask.lane), self.wake_sender)


async def _later(settings: Settings, database: Database, sender: Sender, wake: Callable[[], None]) -> _Later:
    schedule = Schedule(database, wake)
    settling = Settling(database, sender.wake)
    await settling.recover()
    bounds = Bounds(
        each=settings.jobs_per_person,
        total=settings.jobs_total,
        shortest=60 * settings.jobs_minutes,
        zone=settings.time_zone if "time_zone" in settings.model_fields_set else None,
    )
    return _Later(schedule, Diary(database, bounds, schedule.look), settling, sender.wake)


def _gathering(settings: Settings, bot: wire.Client, reader: Reader) -> Gathering:
    if settings.transcribe_api_key:
        key = settings.transcribe_api_key.get_secret_value()
    else:
        key = None
    url = settings.transcribe_url
    model = settings.transcribe_model
    share = settings.prompt_budget // FILES_SHARE
    return Gathering(
        Files(bot),
        reader,
        Transcriber(url, model, key) if url else None,
        most=min(settings.turn_images, share // history.TOKENS_AN_IMAGE),
        room=share * history.BYTES_A_TOKEN,
    )


async def _first_link(database: Database, bot: wire.Client) -> str:
    code = await people.invite(database, role="admin", minutes=FIRST_LINK_MINUTES)
    link = f"https://t.me/{bot.username}?start={code}"
    return f"Nobody is admin yet. Whoever opens this link first, within {FIRST_LINK_MINUTES} minutes, is:\n  {link}"


async def _unreachable(database: Database, lane: Lane) -> None:
    async with database.transaction() as tx:
        await people.set_reachable(tx, lane.chat, reachable=False)
