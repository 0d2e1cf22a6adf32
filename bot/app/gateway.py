"""The running gateway: everything that runs side by side, and the order in which it starts and stops."""

import asyncio
import importlib
import logging
from dataclasses import dataclass
from functools import partial

from bot.app.first_admin import FirstAdminLink
from bot.app.replica import Replica
from bot.chat.access import Access
from bot.chat.actions import ActionDependencies
from bot.chat.group_sight import GroupSight
from bot.chat.quota import QuotaGate
from bot.db.retry import OutageLog
from bot.db.shares import OwnShares
from bot.errors import StoreReplaced
from bot.jobs.scheduler import JobScheduler
from bot.jobs.system_job_runner import SystemJobSync
from bot.llm.client import ModelClient
from bot.llm.endpoint_watch import EndpointWatch
from bot.maintenance.document_folder import DocumentFolder
from bot.maintenance.kept_file_indexer import KeptFileIndexer
from bot.queue import Worker
from bot.telegram.best_effort_calls import BestEffortCalls
from bot.telegram.delivery.sender import Sender
from bot.telegram.incoming.polling import UpdatePoller
from bot.telegram.reactions import SeenReactions
from bot.tool_registry.registry import ToolRegistry
from bot.tool_registry.sign_in_flows import SignInFlows
from bot.translations.translator import translatable
from bot.turns.approvals import Approvals
from bot.turns.cache_warmup import CacheWarmup
from bot.usage.reconcile import Reconciliation
from bot.usage.recorder import UsageRecorder
from tools.threads import run_in_thread

HEAD_START_SECONDS = 0.1  # of what waits, before the import of a large library takes the processor
FIRST_ANSWER_SECONDS = 1.0  # of what waited for the client, before what can come later
CALL_CHECKER = "tools.arguments"  # loads jsonschema

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Gateway:
    """The parts that run."""

    intake: UpdatePoller
    worker: Worker
    sender: Sender
    reactions: SeenReactions
    group_sight: GroupSight
    best_effort_calls: BestEffortCalls
    sets_menus: bool
    cache_warmup: CacheWarmup
    usage_recorder: UsageRecorder
    reconciliation: Reconciliation
    scheduler: JobScheduler
    system_job_sync: SystemJobSync
    approvals: Approvals
    document_folder: DocumentFolder
    kept_file_indexer: KeptFileIndexer
    access: Access
    model: ModelClient
    endpoint_watch: EndpointWatch
    tool_registry: ToolRegistry
    sign_ins: SignInFlows
    quota: QuotaGate
    action_dependencies: ActionDependencies
    bot_name: str
    outage_log: OutageLog
    replica: Replica | None

    def is_ready(self) -> bool:
        """Whether a message sent now is fetched, stored and answered.

        A replica that does not lead answers what the leader fetches.
        """
        if self.outage_log.is_away or not self.endpoint_watch.is_up:
            return False
        own_shares = self.own_shares
        if own_shares is None or own_shares.is_leader:
            return self.intake.watch.is_fetching()
        return own_shares.other_schema is None and own_shares.has_leader

    @property
    def own_shares(self) -> OwnShares | None:
        """The shares that this replica holds; None: it is the only gateway on its database."""
        return None if self.replica is None else self.replica.own_shares

    async def run(self, stop: asyncio.Event, first_admin_link: FirstAdminLink) -> None:
        """Work until `stop` is set, or until Telegram refuses the bot.

        Then fetch nothing more, let turns end within their grace period, and deliver what is ready.
        """
        async with asyncio.TaskGroup() as tasks:
            usage_recorder = tasks.create_task(self.usage_recorder.run(), name="usage recorder")
            sender = tasks.create_task(self.sender.run(), name="sender")
            tool_registry = tasks.create_task(self.tool_registry.run(), name="tool registry")
            worker = tasks.create_task(self.worker.run(), name="worker")
            replica = tasks.create_task(self._run_replica(), name="replica")
            try:
                await self._run_ingress(stop, first_admin_link)
            finally:
                self.worker.drain()
                if self.replica is not None:
                    self.replica.leave()
                await asyncio.wait([worker])
                tool_registry.cancel()
                self.sender.stop()
                await asyncio.wait([sender])
                self.usage_recorder.stop()
                await asyncio.wait([usage_recorder])
                replica.cancel()

    async def _run_replica(self) -> None:
        if self.replica is not None:
            await self.replica.run()

    async def _run_ingress(self, stop: asyncio.Event, first_admin_link: FirstAdminLink) -> None:
        """Run what brings in work until `stop` is set."""
        async with asyncio.TaskGroup() as tasks:
            ingress_tasks = [
                tasks.create_task(self._lead(first_admin_link), name="leader"),
                tasks.create_task(self.reactions.run(), name="reactions"),
                tasks.create_task(self.sign_ins.run(), name="sign-ins"),
                tasks.create_task(self._load_late_libraries(), name="late libraries"),
                tasks.create_task(self.endpoint_watch.run(), name="endpoint watch"),
                tasks.create_task(self._end_if_replaced(), name="database file"),
            ]
            await stop.wait()
            self.worker.drain()  # its grace period begins now, even if a task here waits for the database
            for task in ingress_tasks:
                task.cancel()

    async def _end_if_replaced(self) -> None:
        """Tell admins, and raise StoreReplaced, once the database is another file, or none."""
        await self.outage_log.wait_until_replaced()
        error = StoreReplaced(
            translatable(
                "The database file was removed or replaced while I was running. I'm stopping "
                "now so that nothing more is lost. Restore a backup with `canvasgram restore`, then start "
                "me again."
            )
        )
        await self.best_effort_calls.alert_admins(error.explain)
        raise error

    async def _lead(self, first_admin_link: FirstAdminLink) -> None:
        """Do what one process does for all, whenever this is the one."""
        work = partial(self._run_leader, first_admin_link)
        if self.replica is None:
            await work()
        else:
            await self.replica.leadership.run(work)

    async def _run_leader(self, first_admin_link: FirstAdminLink) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.intake.run(), name="intake")
            tasks.create_task(self.reconciliation.run(), name="reconciliation")
            tasks.create_task(self.scheduler.run(), name="scheduler")
            tasks.create_task(self.system_job_sync.run(), name="system job sync")
            tasks.create_task(self.approvals.run(), name="approvals")
            tasks.create_task(self.document_folder.run(), name="document folder")
            tasks.create_task(self.kept_file_indexer.run(), name="kept file indexer")
            if self.sets_menus:
                tasks.create_task(self._set_menus(), name="menus")
            tasks.create_task(self._update_group_sight(), name="group sight")
            tasks.create_task(first_admin_link.run(), name="first admin link")
            tasks.create_task(self._warm_cache(), name="cache warm-up")
            log.info("ready: fetching messages from Telegram", extra={"action": "app.ready"})

    async def _set_menus(self) -> None:
        """Set the menus behind the first answer, which would wait for all catalogues and a dozen calls."""
        await self._wait_for_first_answer()
        admins = self.access.list_admins()
        await self.best_effort_calls.set_menus(
            {admin: self.access.get_languages(admin).effective for admin in admins}
        )

    async def _update_group_sight(self) -> None:
        """Ask behind the first poll what the bot sees in each of its groups."""
        await self.intake.has_begun.wait()
        await self.group_sight.update_all()

    async def _warm_cache(self) -> None:
        """Connect first: the call waits for a seat and not for an import, as its row says."""
        await self.model.connect()
        await self.cache_warmup.run()

    async def _load_late_libraries(self) -> None:
        """Import what tool calls need once a message that waited for the model's client is answered."""
        await self._wait_for_first_answer()
        await run_in_thread(importlib.import_module, CALL_CHECKER)

    async def _wait_for_first_answer(self) -> None:
        """Import what answers need behind the first poll, and leave a message that waits its time."""
        if self.replica is None:
            await self.intake.has_begun.wait()
        await asyncio.sleep(HEAD_START_SECONDS)
        await self.model.connect()
        await asyncio.sleep(FIRST_ANSWER_SECONDS)
