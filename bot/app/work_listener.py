"""Wakes who has something to do after a commit, here or at the replica that holds the share.

A part of the composition root; factory.py builds the rest.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bot.app.replica import ReplicaLink
from bot.domain import Changes
from bot.jobs.scheduler import JobScheduler
from bot.queue import Worker
from bot.telegram.delivery.sender import Sender
from bot.turns import Approvals

if TYPE_CHECKING:  # only replicas import it
    from bot.replicas.messenger import Topic


class WorkListener:
    """The CommitListener of a gateway; `link` None: there is no other replica."""

    def __init__(
        self,
        worker: Worker,
        sender: Sender,
        scheduler: JobScheduler,
        approvals: Approvals,
        link: ReplicaLink | None,
    ) -> None:
        self._worker = worker
        self._sender = sender
        self._scheduler = scheduler
        self._approvals = approvals
        self._link = link

    def build_notifications(self, changes: Changes) -> Sequence[str]:
        """What other replicas have to do, while there are any."""
        if self._link is None or self._link.own_shares.count_replicas() == 1:
            return ()
        own_shares = self._link.own_shares
        messages: list[tuple[Topic, str]] = [
            ("outbox", lane.key) for lane in changes.outbox_lanes if not own_shares.has(lane)
        ]
        if not changes.inbox_shares <= own_shares.holds.keys():
            messages.append(("inbox", "all"))
        if changes.has_questions:
            messages.append(("asked", ""))
        return self._link.messenger.build_payloads(messages)

    def note_commit(self, changes: Changes) -> None:
        """Wake who has something to do in this process."""
        if changes.inbox_shares:
            self._worker.wake()
        for lane in changes.outbox_lanes:
            self._sender.wake(lane)
        if changes.has_due_times:
            self._scheduler.wake()
        if changes.has_questions:
            self._approvals.wake()
