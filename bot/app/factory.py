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
from bot.app.gateway import Gateway
from bot.app.maintenance_factory import MaintenanceFactory
from bot.app.turn_factory import TurnFactory
from bot.attachments.reader import AttachmentReader
from bot.attachments.transcription import Transcriber
from bot.db import lock
from bot.db import migrate as migrating
from bot.db.conversations import calls
from bot.db.engine import Database, open_database, parse_database_path
from bot.db.people import people
from bot.db.queues.admin_notices import AdminNotices
from bot.db.queues.inbox import IncomingUpdate
from bot.domain import ItemKind, Lane, Runner
from bot.errors import SettingsRefused
from bot.jobs.outcomes import JobOutcomes
from bot.jobs.schedule_tool import ChatSchedules
from bot.jobs.scheduler import JobScheduler
from bot.jobs.user_jobs import JobLimits, JobOwner, UserJobs
from bot.llm.client import ModelClient
from bot.llm.seats import SeatLimiter
from bot.queue.dead_letters import DeadLetters
from bot.queue.worker import Worker
from bot.settings import Settings
from bot.telegram import client as wire
from bot.telegram.access import Access
from bot.telegram.actions import ActionDependencies
from bot.telegram.best_effort_calls import BestEffortCalls
from bot.telegram.commands import registry as commands
from bot.telegram.delivery.channel import ChatChannel
from bot.telegram.delivery.sender import Sender
from bot.telegram.incoming.attachment_loader import AttachmentLoader
from bot.telegram.incoming.downloads import FileDownloader
from bot.telegram.incoming.polling import PollerCallbacks, UpdatePoller
from bot.telegram.reactions import SeenReactions
from bot.telegram.runners.quota import QuotaGate, QuotaSettings
from bot.telegram.runners.reminders import ReminderRunner
from bot.telegram.runners.tasks import TaskRunner
from bot.telegram.runners.updates import UpdateRunner
from bot.turns import endpoints
from bot.turns.endpoints import ModelEndpoint
from bot.turns.runner import TurnRunner
from bot.turns.start import TurnRequest
from bot.usage.recorder import UsageRecorder
from bot.usage.timers import TurnTimers

FILES_DIVISOR = 4  # the part of a prompt that the pictures of one turn may take, and as much its files
FIRST_LINK_MINUTES = 15

log = logging.getLogger(__name__)


async def run(settings: Settings, stop: asyncio.Event, announce: Callable[[str], None] = log.warning) -> int:
    """Run the gateway until `stop` is set; returns the exit code. Raises a CanvasgramError when it cannot
    start.

    `say` is told how to become the first admin while there is none.
    """
    watches = TurnTimers(time.time())
    file = parse_database_path(settings.database_url)
    file.parent.mkdir(parents=True, exist_ok=True)
    with lock.hold_lock(file):
        copy = migrating.migrate(settings.database_url)
        if copy:
            log.info("the database was migrated; a copy is at %s", copy, extra={"action": "app.migrated"})
        token = settings.telegram_token.get_secret_value()
        api_url = settings.telegram_api_url
        async with (
            open_database(settings.database_url) as database,
            wire.open_bot(token, api_url, stop) as bot,
        ):
            if bot is not None:
                async with (
                    _open_model(settings) as model,
                    endpoints.open_fallback_endpoint(settings) as second,
                ):
                    house = await build(settings, database, bot, (model, second), watches)
                    if not house.admins:
                        announce(await _create_first_admin_link(database, bot))
                    async with _serve_monitoring(
                        settings, house, database, _seats_by_endpoint(model, second)
                    ):
                        await house.run(stop)
    return 0


@contextlib.asynccontextmanager
async def _open_model(settings: Settings) -> AsyncIterator[ModelClient]:
    if settings.model_api_key:
        key = settings.model_api_key.get_secret_value()
    else:
        key = None
    model = ModelClient(
        settings.model_url, settings.model_name, SeatLimiter(settings.model_seats), api_key=key
    )
    try:
        yield model
    finally:
        await model.close()


def _seats_by_endpoint(model: ModelClient, fallback: ModelEndpoint | None) -> Mapping[str, SeatLimiter]:
    """The seats of each endpoint."""
    other = fallback.model if fallback is not None else None
    return {"main": model.seats} | ({"fallback": other.seats} if isinstance(other, ModelClient) else {})


@contextlib.asynccontextmanager
async def _serve_monitoring(
    settings: Settings, gateway: Gateway, database: Database, seats_by_endpoint: Mapping[str, SeatLimiter]
) -> AsyncIterator[None]:
    """Serve `/healthz` and `/metrics` while the block runs, if HTTP_PORT is set."""
    async with contextlib.AsyncExitStack() as serving:
        if settings.http_port is not None:
            from bot.db.usage.ended import EndedWatcher
            from bot.http_server import serve
            from bot.monitoring.health import build_app
            from bot.monitoring.metrics import GatewayMetrics

            lookout = EndedWatcher(database)
            await lookout.begin()
            metrics = GatewayMetrics(
                lookout,
                seats_by_endpoint,
                gateway.tool_registry.is_known,
                importlib.metadata.version("canvasgram"),
            )
            app = serve(
                build_app(gateway.intake.has_recent_poll, metrics),
                host=settings.http_host,
                port=settings.http_port,
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
    bot: wire.TelegramBot,
    models: tuple[ModelClient, ModelEndpoint | None],
    timers: TurnTimers,
) -> Gateway:
    """Put the house together on an open database, a Telegram client that knows its name, a model, perhaps a
    second.
    """
    model, second = models
    notices = AdminNotices(settings.admin_ids)
    access = Access(settings.access, settings.admin_ids)
    await access.load(database)
    async with database.transaction() as tx:
        await calls.abandon_model_calls(tx, None, now=time.time())
    gestures = _build_best_effort_calls(bot, second)
    keeper = UsageRecorder(database, timers)
    await keeper.start()
    sender = Sender(
        database,
        bot,
        on_blocked=lambda lane: _mark_unreachable(database, lane),
        on_trouble=lambda *it: aside.notify_admins(*it),
        turn_timers=timers,
    )
    aside = DeadLetters(database, notices, sender.wake, timers)
    asking = workshop.build_approval_dependencies(notices, access, sender.wake, lambda: worker.wake(), timers)
    tools = await workshop.load_tools(settings, database, asking, aside.notify_admins)
    later = await _build_job_components(settings, database, sender, lambda: worker.wake())
    answering = TurnFactory(
        settings,
        database,
        model,
        second,
        tools.tool_registry,
        aside.notify_admins,
        AttachmentReader(),
        later.schedules_for,
    )
    answering.check_budget()
    warming = answering.build_cache_warmup()
    turns = TurnRunner(
        answering.build_dependencies(
            partial(ChatChannel, sender), sender.wake, warming.trigger, timers, tools.policy_dependencies
        ),
        wake_worker=lambda: worker.wake(),
    )
    rations = QuotaGate(
        turns,
        database,
        access,
        settings=QuotaSettings(settings.canvases_a_day, answering.max_canvases),
        wake_sender=sender.wake,
    )
    housekeeping = MaintenanceFactory(settings, database, warming, aside.notify_admins)
    reach = ActionDependencies(
        access=access,
        notices=notices,
        turns=rations,
        best_effort_calls=gestures,
        wake_worker=lambda: worker.wake(),
        wake_sender=sender.wake,
        is_repeatable=tools.is_repeatable,
        bot_name=bot.username,
        default_thinking=settings.thinking,
        load_prompt_breakdown=answering.load_prompt_breakdown,
        approvals=tools.approvals,
        user_jobs=later.user_jobs,
        fallback_endpoint=second,
        canvases_per_day=settings.canvases_a_day,
        builtin_tools=tools.builtin_tools,
        reload_tools=tools.tool_registry.refresh,
        on_limits_changed=rations.clear_cache,
        backups_kept_until=housekeeping.retention_policy.find_copies_expiry,
    )
    runners: dict[ItemKind, Runner] = {
        "update": UpdateRunner(
            database,
            reach,
            _build_attachment_loader(settings, bot, answering.reader),
            max_waiting=settings.waiting_messages,
        ),
        "reminder": later.outcomes.record_after(
            ReminderRunner(database, access, later.user_jobs, sender.wake)
        ),
        "task": later.outcomes.record_after(TaskRunner(database, access, rations, asking.on_turn_ended)),
        "house": housekeeping.build_system_job_runner(
            notices,
            {"summary": answering.build_summarizer(), **tools.build_task_runners(gestures, sender.wake)},
            sender.wake,
        ),
    }
    worker = Worker(
        database,
        runners,
        stop_lane=turns.stop,
        can_yield=turns.can_yield,
        give_up=later.outcomes.record_after_giving_up(aside),
    )
    eyes = SeenReactions(bot, worker.is_busy)

    def arrived(arrivals: Sequence[IncomingUpdate]) -> None:
        eyes.enqueue(arrivals)
        worker.wake()

    ways = PollerCallbacks(arrived, lambda line: gestures.alert_admins(access.list_admins(), line))
    intake = UpdatePoller(bot, database, ways, max_waiting=settings.waiting_messages)
    return Gateway(
        intake=intake,
        worker=worker,
        sender=sender,
        reactions=eyes,
        best_effort_calls=gestures,
        cache_warmup=warming,
        usage_recorder=keeper,
        reconciliation=housekeeping.reconciliation,
        scheduler=later.scheduler,
        system_job_sync=housekeeping.build_system_job_sync(later.scheduler, worker.wake),
        approvals=tools.approvals,
        admins=access.list_admins(),
        tool_registry=tools.tool_registry,
    )


def _build_best_effort_calls(bot: wire.TelegramBot, fallback: ModelEndpoint | None) -> BestEffortCalls:
    members, admins = (
        commands.build_menu(standing, has_fallback=fallback is not None) for standing in ("member", "admin")
    )
    return BestEffortCalls(bot, member_commands=members, admin_commands=admins)


@dataclass(frozen=True, slots=True)
class _JobComponents:
    """What is done later: what wakes it, what people keep there, and what came of it."""

    scheduler: JobScheduler
    user_jobs: UserJobs
    outcomes: JobOutcomes
    wake_sender: Callable[[Lane], None]

    def schedules_for(self, request: TurnRequest) -> ChatSchedules:
        """What the tools of a turn keep there."""
        return ChatSchedules(
            self.user_jobs, JobOwner(request.person, request.name, request.lane), self.wake_sender
        )


async def _build_job_components(
    settings: Settings, database: Database, sender: Sender, wake_worker: Callable[[], None]
) -> _JobComponents:
    schedule = JobScheduler(database, wake_worker)
    settling = JobOutcomes(database, sender.wake)
    await settling.recover()
    bounds = JobLimits(
        max_per_person=settings.jobs_per_person,
        max_total=settings.jobs_total,
        min_interval_seconds=60 * settings.jobs_minutes,
        default_zone=settings.time_zone if "time_zone" in settings.model_fields_set else None,
    )
    return _JobComponents(schedule, UserJobs(database, bounds, schedule.wake), settling, sender.wake)


def _build_attachment_loader(
    settings: Settings, bot: wire.TelegramBot, reader: AttachmentReader
) -> AttachmentLoader:
    if settings.transcribe_api_key:
        key = settings.transcribe_api_key.get_secret_value()
    else:
        key = None
    url = settings.transcribe_url
    model = settings.transcribe_model
    share = settings.prompt_budget // FILES_DIVISOR
    return AttachmentLoader(
        FileDownloader(bot),
        reader,
        Transcriber(url, model, key) if url else None,
        max_images=min(settings.turn_images, share // history.TOKENS_PER_IMAGE),
        max_text_bytes=share * history.BYTES_PER_TOKEN,
    )


async def _create_first_admin_link(database: Database, bot: wire.TelegramBot) -> str:
    code = await people.create_invite(database, role="admin", minutes=FIRST_LINK_MINUTES)
    link = f"https://t.me/{bot.username}?start={code}"
    return f"Nobody is admin yet. Whoever opens this link first, within {FIRST_LINK_MINUTES} minutes, is:\n  {link}"


async def _mark_unreachable(database: Database, lane: Lane) -> None:
    async with database.transaction() as tx:
        await people.set_reachable(tx, lane.chat, reachable=False)
