"""The running gateway: everything that runs side by side, and the order in which it starts and stops."""

import asyncio
from dataclasses import dataclass

from bot.jobs.scheduler import JobScheduler
from bot.jobs.system_job_runner import SystemJobSync
from bot.queue import Worker
from bot.telegram.best_effort_calls import BestEffortCalls
from bot.telegram.delivery.sender import Sender
from bot.telegram.incoming.polling import UpdatePoller
from bot.telegram.reactions import SeenReactions
from bot.tool_registry.registry import ToolRegistry
from bot.tool_registry.sign_in_flows import SignInFlows
from bot.turns.approvals import Approvals
from bot.turns.cache_warmup import CacheWarmup
from bot.usage.reconcile import Reconciliation
from bot.usage.recorder import UsageRecorder


@dataclass(frozen=True, slots=True)
class Gateway:
    """The parts that run; `admins` are those whose command menus are set."""

    intake: UpdatePoller
    worker: Worker
    sender: Sender
    reactions: SeenReactions
    best_effort_calls: BestEffortCalls
    cache_warmup: CacheWarmup
    usage_recorder: UsageRecorder
    reconciliation: Reconciliation
    scheduler: JobScheduler
    system_job_sync: SystemJobSync
    approvals: Approvals
    admins: tuple[int, ...]
    tool_registry: ToolRegistry
    sign_ins: SignInFlows

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, or until Telegram refuses the bot.

        Then fetch nothing more, let turns end within their grace period, and deliver what is ready.
        """
        async with asyncio.TaskGroup() as tasks:
            usage_recorder = tasks.create_task(self.usage_recorder.run(), name="usage recorder")
            sender = tasks.create_task(self.sender.run(), name="sender")
            tool_registry = tasks.create_task(self.tool_registry.run(), name="tool registry")
            worker = tasks.create_task(self.worker.run(), name="worker")
            try:
                await self._run_ingress(stop)
            finally:
                self.worker.drain()
                await asyncio.wait([worker])
                tool_registry.cancel()
                self.sender.stop()
                await asyncio.wait([sender])
                self.usage_recorder.stop()
                await asyncio.wait([usage_recorder])

    async def _run_ingress(self, stop: asyncio.Event) -> None:
        """Run what brings in work until `stop` is set."""
        async with asyncio.TaskGroup() as tasks:
            ingress_tasks = [
                tasks.create_task(self.intake.run(), name="intake"),
                tasks.create_task(self.reactions.run(), name="reactions"),
                tasks.create_task(self.reconciliation.run(), name="reconciliation"),
                tasks.create_task(self.scheduler.run(), name="scheduler"),
                tasks.create_task(self.system_job_sync.run(), name="system job sync"),
                tasks.create_task(self.approvals.run(), name="approvals"),
                tasks.create_task(self.sign_ins.run(), name="sign-ins"),
                tasks.create_task(self.best_effort_calls.set_menus(self.admins), name="menus"),
                tasks.create_task(self.cache_warmup.run(), name="cache warm-up"),
            ]
            await stop.wait()
            self.worker.drain()  # its grace period begins now, even if a task here waits for the database
            for task in ingress_tasks:
                task.cancel()
