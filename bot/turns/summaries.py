"""Sums up ahead, in a free seat between turns, what leaves a chat's prompt next; the next cut takes the
summary over.

The runner of the house's own inbox items. They hold no lane, and their calls go behind those of people and
tasks: a person waits for one at most where all seats are taken, and then no longer than its two canvases.
"""

import logging
import time
from dataclasses import dataclass, replace

from bot.agent import reply_parser as replies
from bot.agent.reply_parser import Answer
from bot.agent.toolbox import Toolbox
from bot.db.conversations import calls, conversations, turns
from bot.db.conversations.calls import NewCall
from bot.db.conversations.conversations import Conversation
from bot.db.engine import Database, Transaction
from bot.db.queues import inbox
from bot.db.retry import patiently
from bot.domain import SUMMARIES, InboxItem, Lane, Message, ModelRequest
from bot.errors import CallFailed
from bot.tool_registry.registry import Catalogue
from bot.turns import context_window as window
from bot.turns.call_ledger import Book, Came
from bot.turns.endpoints import Endpoint

FILLED = 0.7  # of the room a prompt has: from then on a cut is near
TOKENS = 512  # two canvases

# Asked at the end of the chat's own prompt, which the endpoint holds in its cache: a prompt made for it alone
# would be computed whole. Who speaks in it stays who he is, and what it gives is told as data.
ASK = (
    "This is asked by the house, not by the user: sum this conversation up for yourself, since its beginning is about "
    "to leave your sight. At most 200 words of plain text in its language: what the user wants, what was found out and "
    "decided, what is still open; names, numbers, dates and addresses exactly. What an earlier summary tells stays in "
    "it. Add nothing of your own, call no tool and answer nothing else."
)

log = logging.getLogger(__name__)


async def due(tx: Transaction, lane: Lane, *, now: float) -> bool:
    """Write down that the lane's ended turns are to be summed up, all but the newest, which a /retry may
    still replace.

    False if there is nothing to do; else wake the worker once this is committed.
    """
    here = await conversations.find(tx, lane)
    past = await turns.past(tx, lane, here.number)
    if is_ahead(here) or len(past) < 2:
        return False
    body = {"job": "summary", "lane": lane.key, "conversation": here.number, "upto": past[-2].id}
    await inbox.add(tx, kind="house", lane=None, sender=None, body=body, now=now)
    return True


def is_ahead(here: Conversation) -> bool:
    """Whether a summary is ready that tells of turns still in the prompt."""
    return here.ahead is not None and (here.upto or 0) > (here.cut or 0)


@dataclass(frozen=True, slots=True)
class _Job:
    """What to sum up, as a prompt, and the newest turn it tells of."""

    lane: Lane
    conversation: int
    upto: int
    toolbox: Toolbox
    prompt: tuple[Message, ...]
    notes: int


class Summaries:
    """Runs the house's items. `system` and `catalogue` are the turns' own; `wanted` is False where SUMMARY is
    off.
    """

    def __init__(
        self, database: Database, endpoint: Endpoint, *, system: str, catalogue: Catalogue, wanted: bool
    ) -> None:
        self._database = database
        self._book = Book(database)
        self._endpoint = endpoint
        self._system = system
        self._catalogue = catalogue
        self._wanted = wanted
        self._at_work: set[str] = set()

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        lane = Lane.parse(item.body["lane"])
        if lane.key in self._at_work or not self._wanted:
            await self._end(item)
            return
        self._at_work.add(lane.key)
        try:
            await self._sum_up(item, lane)
        finally:
            self._at_work.discard(lane.key)

    async def _sum_up(self, item: InboxItem, lane: Lane) -> None:
        async with self._database.reading() as tx:
            job = await self._job(tx, lane, item.body["conversation"], item.body["upto"])
        if job is None:
            await self._end(item)
            return
        came = await self._book.errand(self._endpoint.model, self._request(job), self._row(job))
        await self._end(item, job, came)

    async def _job(self, tx: Transaction, lane: Lane, conversation: int, upto: int) -> _Job | None:
        """None if there is nothing left to do: the conversation is over, its turns have left, a summary is
        there.
        """
        seen = await window.look(tx, lane, self._system, self._catalogue.kit_of(lane.chat))
        shown = [turn.id for turn in seen.past[seen.span.first :]]
        if seen.here.number != conversation or is_ahead(seen.here) or upto not in shown:
            return None
        seen = replace(seen, past=seen.past[: seen.span.first + shown.index(upto) + 1])
        prompt = await window.messages(tx, seen, self._system, (Message("user", ASK),))
        return _Job(lane, conversation, upto, seen.toolbox, prompt, len(seen.here.notes or ""))

    def _request(self, job: _Job) -> ModelRequest:
        return ModelRequest(
            messages=job.prompt,
            tools=job.toolbox.definitions,
            tool_choice="none",
            thinking=False,
            max_tokens=TOKENS,
            session=f"{job.lane.key}/{job.conversation}",
            lane=f"{job.lane.key}/summary",
            priority=SUMMARIES,
        )

    def _row(self, job: _Job) -> NewCall:
        system, *others = job.prompt
        return NewCall(
            turn=None,
            step=0,
            purpose="summary",
            again=None,
            endpoint=self._endpoint.url,
            model=self._endpoint.name(),
            thinking=False,
            tools_offered=len(job.toolbox.offered),
            chars_system=len(system.text),
            chars_tools=job.toolbox.size,
            chars_notes=job.notes,
            chars_history=max(0, sum(len(message.text) for message in others) - job.notes),
            images=sum(len(message.images) for message in others),
        )

    async def _end(self, item: InboxItem, job: _Job | None = None, came: Came | None = None) -> None:
        """The item is done, whatever came of it; a summary is kept if the conversation is still the same."""

        async def write() -> None:
            now = time.time()
            async with self._database.transaction() as tx:
                if job is not None and came is not None:
                    await calls.close_call(tx, came.closing, now=now)
                    if text := _summary(came):
                        await conversations.tell_ahead(tx, job.lane, job.conversation, text, job.upto)
                await inbox.done(tx, [item.id], now=now)

        await patiently(write)


def _summary(came: Came) -> str | None:
    if isinstance(came.given, CallFailed):
        log.warning("no summary was made: %s", came.given, extra={"action": "summary.failed"})
        return None
    verdict = replies.judge(came.given, {})
    if not isinstance(verdict, Answer):
        log.warning("a summary came without words", extra={"action": "summary.empty"})
        return None
    return verdict.text
