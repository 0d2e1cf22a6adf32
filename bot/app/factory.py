"""The composition root: builds every part of the gateway and connects them."""

import time
from dataclasses import dataclass, field
from functools import partial

from bot.app.gateway import Gateway
from bot.app.job_factory import build_job_components
from bot.app.maintenance_factory import MaintenanceFactory
from bot.app.replica import (
    LOOK_SECONDS,
    OtherTurns,
    ReplicaLink,
    ReplicaParts,
    bind_waiting_messages,
    build_replica,
    build_revision_watch,
    find_holds,
)
from bot.app.tool_factory import build_approval_dependencies, load_tools
from bot.app.turn_factory import TurnFactory
from bot.app.work_listener import WorkListener
from bot.attachments.images import IMAGE_TOKENS
from bot.attachments.reader import AttachmentReader
from bot.attachments.speech import build_synthesizer
from bot.chat.access import Access
from bot.chat.actions import ActionDependencies, GroupParts, OwnerSettings, ToolParts, TurnParts
from bot.chat.commands.groups import LeaveGroupsTask
from bot.chat.commands.registry import COMMANDS, build_group_menu, build_menu
from bot.chat.export_runner import ExportRunner
from bot.chat.group_directory import GroupDirectory
from bot.chat.group_sight import GroupSight
from bot.chat.guest_queries import GuestQueries
from bot.chat.hooks import HookRunner
from bot.chat.quota import QuotaGate, QuotaSettings
from bot.chat.reminders import ReminderRunner
from bot.chat.speech_runner import SpeechRunner
from bot.chat.tasks import TaskRunner, UnansweredEnd
from bot.chat.unaddressed_messages import UnaddressedMessages
from bot.chat.unreachable_chats import UnreachableChats
from bot.chat.updates import UpdateRunner
from bot.db.conversations import calls
from bot.db.database_url import find_data_folder, find_database_file, is_postgresql
from bot.db.engine import Database
from bot.db.queues.admin_notices import AdminNotices
from bot.db.queues.item_bodies import EXPORT_JOB, SPEECH_JOB, SUMMARY_JOB
from bot.db.retry import OutageLog, retry_until_available
from bot.domain import ItemKind, Runner
from bot.llm.client import ModelClient
from bot.llm.read_gains import find_gains_folder, load_gains
from bot.llm.typed_reads import TypedReader
from bot.maintenance.document_folder import DocumentFolder
from bot.maintenance.kept_file_indexer import KeptFileIndexer
from bot.queue import BusyLanes, DeadLetters, Worker, WorkerCallbacks
from bot.settings import Settings
from bot.telegram.best_effort_calls import BestEffortCalls
from bot.telegram.bot_rights import BotRightsReader
from bot.telegram.chat_administrators import ChatAdministrators
from bot.telegram.client import TelegramBot, TelegramClient
from bot.telegram.delivery.channel import ChatChannel
from bot.telegram.delivery.rate_budget import RateLimits
from bot.telegram.delivery.sender import Sender, SenderCallbacks
from bot.telegram.incoming.backlog import MAX_WAITING_MESSAGES, BacklogLimits
from bot.telegram.incoming.downloads import FileDownloader
from bot.telegram.incoming.edits import EDIT_HOLD_SECONDS
from bot.telegram.incoming.envelope import read_envelope
from bot.telegram.incoming.polling import PollerCallbacks, PollerOptions, UpdatePoller, list_allowed_updates
from bot.telegram.reactions import SeenReactions
from bot.tool_registry.program_homes import find_homes_folder
from bot.turns.call_ledger import CallLedger
from bot.turns.endpoints import ModelEndpoint
from bot.turns.execution import TurnRunner
from bot.turns.handle import RunningTurns
from bot.turns.recorded_reads import RecordedReads
from bot.turns.tool_questions import ToolQuestions
from bot.usage.recorder import UsageRecorder
from bot.usage.timers import TurnTimers
from tools.net.pages import PageReader


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What users cannot set: tests and the bench do.

    `shutdown_seconds`: how long each of its last writes may take.
    `rate_limits`: of the calls to Telegram.
    `edit_hold_seconds`: how long an edit waits for another one of the same message.
    `max_waiting`: messages of one person that wait for an answer.
    `page_reader`: reads pages for `fetch_page`; None: only those of public hosts.
    `timers`: measure its turns; None: some of its own.
    `examples`: what the greeting offers to tap; empty: its own.
    `sets_menus`: Telegram is told the commands at each start, in all languages.
    """

    shutdown_seconds: float = 1.0
    rate_limits: RateLimits = field(default_factory=RateLimits)
    edit_hold_seconds: float = EDIT_HOLD_SECONDS
    max_waiting: int = MAX_WAITING_MESSAGES
    page_reader: PageReader | None = None
    timers: TurnTimers | None = None
    examples: tuple[str, ...] = ()
    sets_menus: bool = True


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """`timers`: measure turns since this process began. `outage_log`: of the database.

    `replica_link` None: it is the only gateway on its database.
    """

    timers: TurnTimers
    outage_log: OutageLog
    replica_link: ReplicaLink | None = None


DEFAULT_OPTIONS = RunOptions()

Models = tuple[ModelClient, ModelEndpoint | None]
"""The main endpoint's client, and the second endpoint if there is one."""


async def build(
    settings: Settings,
    database: Database,
    bot: TelegramBot,
    models: Models,
    *,
    process: ProcessContext,
    options: RunOptions,
) -> Gateway:
    """Build the gateway on an open database, a Telegram client that knows its name, and the models."""
    model, fallback = models
    timers = process.timers
    notices = AdminNotices(settings.admin_ids)
    access = Access(settings.access, settings.admin_ids)
    await retry_until_available(partial(access.load, database))
    link = process.replica_link
    holds = find_holds(link)
    await retry_until_available(partial(_abandon_model_calls, database, link))
    running_turns = RunningTurns(OtherTurns(link) if link else None)
    groups = GroupDirectory(
        bot.id,
        bot.username,
        [command.name for command in COMMANDS],
        bot.chat_numbers,
        guest_mode=settings.guest_mode == "on",
    )
    await retry_until_available(partial(groups.load, database))
    group_sight = GroupSight(BotRightsReader(bot), database, groups)
    best_effort_calls = BestEffortCalls(
        bot,
        partial(build_menu, has_fallback=fallback is not None),
        build_group_menu,
        access.list_admins,
        get_translator=access.get_translator,
    )
    usage_recorder = UsageRecorder(database, timers, shutdown_seconds=options.shutdown_seconds, holds=holds)
    await retry_until_available(usage_recorder.start)
    dead_letters = DeadLetters(database, notices, timers)
    unreachable_chats = UnreachableChats(database, groups, running_turns)
    sender = Sender(
        database,
        bot,
        SenderCallbacks(unreachable_chats, dead_letters.notify_admins),
        limits=options.rate_limits,
        turn_timers=timers,
        own_lanes=link.build_own_lanes() if link else None,
        database_file=find_database_file(settings.database_url),
    )
    approval_dependencies = build_approval_dependencies(notices, access, timers, link)
    tools = await load_tools(
        settings,
        database,
        approval_dependencies,
        dead_letters.notify_admins,
        options.page_reader,
        look_seconds=LOOK_SECONDS if link else None,
    )
    jobs = await build_job_components(settings, database, access)
    tool_questions = ToolQuestions(database, dead_letters.notify_admins)
    ledger = CallLedger(database, shutdown_seconds=options.shutdown_seconds, life=usage_recorder.life)
    turn_factory = TurnFactory(
        settings,
        database,
        ledger,
        model,
        _build_reads(settings, database, ledger, models),
        fallback,
        tools.tool_registry,
        dead_letters.notify_admins,
        AttachmentReader(image_tokens=settings.fixed_image_tokens or IMAGE_TOKENS[0]),
        jobs.schedules_for,
        tool_questions,
        access.has_access,
    )
    turn_factory.check_budget()
    outside_speech = turn_factory.build_outside_speech()
    cache_warmup = turn_factory.build_cache_warmup()
    turns = TurnRunner(
        turn_factory.build_dependencies(
            partial(ChatChannel, sender), cache_warmup.trigger, timers, tools.policy_dependencies
        ),
        running_turns,
    )
    quota = QuotaGate(
        turns,
        database,
        access,
        settings=QuotaSettings(
            settings.canvases_a_day,
            turn_factory.max_canvases,
            settings.time_zone,
            count_replicas=link.own_shares.count_replicas if link else None,
        ),
    )
    maintenance = MaintenanceFactory(
        settings,
        database,
        cache_warmup,
        dead_letters.notify_admins,
        LeaveGroupsTask(database, groups, best_effort_calls),
    )
    action_dependencies = ActionDependencies(
        access,
        notices,
        GroupParts(
            groups,
            ChatAdministrators(bot),
            group_sight,
            UnaddressedMessages(database, groups, turn_factory.build_address_judge(), quota),
            GuestQueries(database, TelegramClient(bot)),
        ),
        TurnParts(
            running_turns,
            quota,
            tools.approvals,
            tool_questions,
            fallback,
            settings.thinking,
            turn_factory.build_prompt_breakdowns(),
            can_speak=settings.speech_url is not None,
            outside_speech=outside_speech,
        ),
        ToolParts(
            tools.tool_registry,
            tools.builtin_tools,
            tools.sign_in_tasks.flows,
            find_homes_folder(settings.database_url),
        ),
        jobs.user_jobs,
        OwnerSettings(
            bot.username,
            settings.canvases_a_day,
            settings.time_zone,
            settings.admin_page_url,
            settings.hooks_url,
            is_postgresql(settings.database_url),
            maintenance.retention_policy,
            options.examples,
        ),
        best_effort_calls,
    )
    busy_lanes = BusyLanes()
    reactions = SeenReactions(bot, busy_lanes.has, timers.get_begin, bind_waiting_messages(link))
    attachment_loader = turn_factory.build_attachment_loader(FileDownloader(bot))
    runners: dict[ItemKind, Runner] = {
        "update": UpdateRunner(
            database,
            action_dependencies,
            attachment_loader,
            max_waiting=options.max_waiting,
            on_answered=reactions.remove,
        ),
        "reminder": jobs.outcomes.record_after(ReminderRunner(database, access, groups, jobs.user_jobs)),
        "task": jobs.outcomes.record_after(
            TaskRunner(
                database, access, groups, quota, UnansweredEnd(database, approval_dependencies.on_turn_ended)
            )
        ),
        "hook": HookRunner(
            database,
            access,
            quota,
            UnansweredEnd(database, approval_dependencies.on_turn_ended),
            attachment_loader.max_text_bytes,
        ),
        "system": maintenance.build_system_job_runner(
            notices,
            {
                SUMMARY_JOB: turn_factory.build_summarizer(),
                SPEECH_JOB: SpeechRunner(
                    database, build_synthesizer(settings), dead_letters.notify_admins, outside_speech
                ),
                EXPORT_JOB: ExportRunner(database, access, groups, settings.time_zone),
                **tools.build_task_runners(best_effort_calls),
            },
        ),
    }
    revision_watch = build_revision_watch(database, access, groups, quota, tools.tool_registry)
    backlog_limits = BacklogLimits(options.max_waiting, settings.prompt_budget)
    worker = Worker(
        database,
        runners,
        WorkerCallbacks(
            stop_lane=running_turns.stop,
            stop_edited=running_turns.stop_edited,
            give_up=jobs.outcomes.record_after_giving_up(dead_letters),
            can_yield=running_turns.can_yield,
            revision_watch=revision_watch if link else None,
            busy_lanes=busy_lanes,
        ),
        max_group_bytes=backlog_limits.max_turn_bytes,
        holds=holds,
    )
    database.set_listener(WorkListener(worker, sender, jobs.scheduler, tools.approvals, link))
    return Gateway(
        intake=UpdatePoller(
            bot,
            database,
            PollerCallbacks(
                reactions.enqueue,
                best_effort_calls,
                partial(read_envelope, groups=groups),
                list_allowed_updates(guest_mode=settings.guest_mode == "on"),
            ),
            limits=backlog_limits,
            options=PollerOptions(options.edit_hold_seconds, is_replica=link is not None),
        ),
        worker=worker,
        sender=sender,
        reactions=reactions,
        group_sight=group_sight,
        best_effort_calls=best_effort_calls,
        sets_menus=options.sets_menus,
        cache_warmup=cache_warmup,
        usage_recorder=usage_recorder,
        reconciliation=maintenance.reconciliation,
        scheduler=jobs.scheduler,
        system_job_sync=maintenance.build_system_job_sync(worker.wake),
        approvals=tools.approvals,
        document_folder=DocumentFolder(
            database,
            settings.documents_dir,
            turn_factory.reader,
            notices,
            needs_opening=settings.access == "open",
        ),
        kept_file_indexer=KeptFileIndexer(database, find_database_file(settings.database_url)),
        access=access,
        model=model,
        endpoint_watch=turn_factory.build_endpoint_watch(),
        tool_registry=tools.tool_registry,
        sign_ins=tools.sign_in_tasks.flows,
        quota=quota,
        action_dependencies=action_dependencies,
        bot_name=bot.username,
        outage_log=process.outage_log,
        replica=build_replica(
            settings,
            bot.id,
            database,
            link,
            ReplicaParts(
                worker,
                sender,
                usage_recorder,
                jobs.outcomes,
                running_turns,
                tools.approvals,
                reactions,
                tools.tool_registry,
                revision_watch,
            ),
        ),
    )


def _build_reads(settings: Settings, database: Database, ledger: CallLedger, models: Models) -> RecordedReads:
    model, fallback = models
    main = ModelEndpoint("main", settings.model_url, model, lambda: model.name, TypedReader(model))
    gains = load_gains(find_gains_folder(find_data_folder(settings.database_url)))
    return RecordedReads(database, ledger, main, fallback, gains)


async def _abandon_model_calls(database: Database, link: ReplicaLink | None) -> None:
    if link is not None:
        return  # they may be another replica's; the leader closes those of replicas that are gone
    async with database.transaction() as tx:
        await calls.abandon_calls_without_turn(tx, now=time.time())
