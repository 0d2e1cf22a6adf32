"""All that runs side by side while the gateway works, and the order in which it starts and stops."""

import asyncio
from dataclasses import dataclass

from bot.jobs.scheduler import JobScheduler
from bot.jobs.system_jobs import SystemJobSync
from bot.queue.worker import Worker
from bot.telegram.best_effort_calls import BestEffortCalls
from bot.telegram.delivery.sender import Sender
from bot.telegram.incoming.polling import UpdatePoller
from bot.telegram.reactions import SeenReactions
from bot.tool_registry.registry import ToolRegistry
from bot.turns.approvals import Approvals
from bot.turns.cache_warmup import CacheWarmup
from bot.usage.reconcile import Reconciliation
from bot.usage.recorder import UsageRecorder


@dataclass(frozen=True, slots=True)
class Gateway:
    """The parts that run, side by side."""

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

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`, or until Telegram will not have us any more; then fetch nothing more, let turns
        end within their grace, deliver what is ready.
        """
        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(self.usage_recorder.run(), name="keeper")
            sending = tasks.create_task(self.sender.run(), name="sender")
            tools = tasks.create_task(self.tool_registry.run(), name="tools")
            working = tasks.create_task(self.worker.run(), name="worker")
            try:
                await self._run_ingress(stop)
            finally:
                self.worker.drain()
                await asyncio.wait([working])
                tools.cancel()
                self.sender.stop()
                await asyncio.wait([sending])
                self.usage_recorder.stop()
                await asyncio.wait([keeping])

    async def _run_ingress(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            guests = [
                tasks.create_task(self.intake.run(), name="intake"),
                tasks.create_task(self.reactions.run(), name="eyes"),
                tasks.create_task(self.reconciliation.run(), name="reconciliation"),
                tasks.create_task(self.scheduler.run(), name="schedule"),
                tasks.create_task(self.system_job_sync.run(), name="rota"),
                tasks.create_task(self.approvals.run(), name="approvals"),
                tasks.create_task(self.best_effort_calls.set_menus(self.admins), name="menus"),
                tasks.create_task(self.cache_warmup.run(), name="warming"),
            ]
            await stop.wait()
            for guest in guests:
                guest.cancel()
