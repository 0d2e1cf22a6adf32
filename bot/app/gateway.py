"""All that runs side by side while the gateway works, and the order in which it starts and stops."""

import asyncio
from dataclasses import dataclass

from bot.jobs.scheduler import Schedule
from bot.jobs.system_jobs import Rota
from bot.queue.worker import Worker
from bot.telegram.best_effort_calls import Gestures
from bot.telegram.delivery.sender import Sender
from bot.telegram.incoming.polling import Intake
from bot.telegram.reactions import Eyes
from bot.tool_registry.registry import Catalogue
from bot.turns.approvals import Approvals
from bot.turns.cache_warmup import Warming
from bot.usage.reconcile import Reconciliation
from bot.usage.recorder import Keeper


@dataclass(frozen=True, slots=True)
class House:
    """The parts that run, side by side."""

    intake: Intake
    worker: Worker
    sender: Sender
    eyes: Eyes
    gestures: Gestures
    warming: Warming
    keeper: Keeper
    reconciliation: Reconciliation
    schedule: Schedule
    rota: Rota
    approvals: Approvals
    admins: tuple[int, ...]
    catalogue: Catalogue

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`, or until Telegram will not have us any more; then fetch nothing more, let turns
        end within their grace, deliver what is ready.
        """
        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(self.keeper.run(), name="keeper")
            sending = tasks.create_task(self.sender.run(), name="sender")
            tools = tasks.create_task(self.catalogue.run(), name="tools")
            working = tasks.create_task(self.worker.run(), name="worker")
            try:
                await self._fetch(stop)
            finally:
                self.worker.drain()
                await asyncio.wait([working])
                tools.cancel()
                self.sender.stop()
                await asyncio.wait([sending])
                self.keeper.stop()
                await asyncio.wait([keeping])

    async def _fetch(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            guests = [
                tasks.create_task(self.intake.run(), name="intake"),
                tasks.create_task(self.eyes.run(), name="eyes"),
                tasks.create_task(self.reconciliation.run(), name="reconciliation"),
                tasks.create_task(self.schedule.run(), name="schedule"),
                tasks.create_task(self.rota.run(), name="rota"),
                tasks.create_task(self.approvals.run(), name="approvals"),
                tasks.create_task(self.gestures.menus(self.admins), name="menus"),
                tasks.create_task(self.warming.run(), name="warming"),
            ]
            await stop.wait()
            for guest in guests:
                guest.cancel()
