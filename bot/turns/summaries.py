"""Sums up ahead, in a free seat between turns, what leaves a chat's prompt next; the next cut takes the
summary over.

The runner of the house's own inbox items. They hold no lane, and their calls go behind those of people and
tasks: a person waits for one at most where all seats are taken, and then no longer than its two canvases.
"""

import logging
import time
from dataclasses import dataclass, replace

from bot.agent import reply_parser as replies
from bot.agent.reply_parser import AnswerReply
from bot.agent.toolbox import Toolbox
from bot.db.conversations import calls, conversations, turns
from bot.db.conversations.calls import NewCall
from bot.db.conversations.conversations import Conversation
from bot.db.engine import Database, Transaction
from bot.db.queues import inbox
from bot.db.retry import retry_until_available
from bot.domain import SUMMARIES_PRIORITY, InboxItem, Lane, Message, ModelRequest
from bot.errors import CallFailed
from bot.tool_registry.registry import ToolRegistry
from bot.turns import context_window as window
from bot.turns.call_ledger import CallLedger, SystemCallResult
from bot.turns.endpoints import ModelEndpoint

NEARLY_FULL_SHARE = 0.7  # of the room a prompt has: from then on a cut is near
SUMMARY_TOKENS = 512  # two canvases

# Asked at the end of the chat's own prompt, which the endpoint holds in its cache: a prompt made for it alone
# would be computed whole. Who speaks in it stays who he is, and what it gives is told as data.
SUMMARY_PROMPT = (
    "This is asked by the house, not by the user: sum this conversation up for yourself, since its beginning is about "
    "to leave your sight. At most 200 words of plain text in its language: what the user wants, what was found out and "
    "decided, what is still open; names, numbers, dates and addresses exactly. What an earlier summary tells stays in "
    "it. Add nothing of your own, call no tool and answer nothing else."
)

log = logging.getLogger(__name__)


async def enqueue_summary(tx: Transaction, lane: Lane, *, now: float) -> bool:
    """Write down that the lane's ended turns are to be summed up, all but the newest, which a /retry may
    still replace.

    False if there is nothing to do; else wake the worker once this is committed.
    """
    here = await conversations.find(tx, lane)
    past = await turns.list_past_turns(tx, lane, here.number)
    if has_summary_ahead(here) or len(past) < 2:
        return False
    body = {"job": "summary", "lane": lane.key, "conversation": here.number, "upto": past[-2].id}
    await inbox.add(tx, kind="house", lane=None, sender=None, body=body, now=now)
    return True


def has_summary_ahead(conversation: Conversation) -> bool:
    """Whether a summary is ready that tells of turns still in the prompt."""
    return conversation.summary_ahead is not None and (conversation.summary_upto or 0) > (
        conversation.cut or 0
    )


@dataclass(frozen=True, slots=True)
class _SummaryJob:
    """What to sum up, as a prompt, and the newest turn it tells of."""

    lane: Lane
    conversation: int
    upto: int
    toolbox: Toolbox
    prompt: tuple[Message, ...]
    notes_chars: int


class Summarizer:
    """Runs the house's items. `system` and `catalogue` are the turns' own; `wanted` is False where SUMMARY is
    off.
    """

    def __init__(
        self,
        database: Database,
        endpoint: ModelEndpoint,
        *,
        system: str,
        tool_registry: ToolRegistry,
        is_enabled: bool,
    ) -> None:
        self._database = database
        self._ledger = CallLedger(database)
        self._endpoint = endpoint
        self._system = system
        self._tool_registry = tool_registry
        self._is_enabled = is_enabled
        self._busy_lanes: set[str] = set()

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        lane = Lane.parse(item.body["lane"])
        if lane.key in self._busy_lanes or not self._is_enabled:
            await self._store_result(item)
            return
        self._busy_lanes.add(lane.key)
        try:
            await self._summarize(item, lane)
        finally:
            self._busy_lanes.discard(lane.key)

    async def _summarize(self, item: InboxItem, lane: Lane) -> None:
        async with self._database.read_transaction() as tx:
            job = await self._load_job(tx, lane, item.body["conversation"], item.body["upto"])
        if job is None:
            await self._store_result(item)
            return
        came = await self._ledger.call_once(
            self._endpoint.model, self._build_request(job), self._build_row(job)
        )
        await self._store_result(item, job, came)

    async def _load_job(
        self, tx: Transaction, lane: Lane, conversation: int, upto: int
    ) -> _SummaryJob | None:
        """None if there is nothing left to do: the conversation is over, its turns have left, a summary is
        there.
        """
        seen = await window.load_window(
            tx, lane, self._system, self._tool_registry.make_toolbox_builder(lane.chat)
        )
        shown = [turn.id for turn in seen.past_turns[seen.history_cut.first_turn :]]
        if (
            seen.conversation.number != conversation
            or has_summary_ahead(seen.conversation)
            or upto not in shown
        ):
            return None
        seen = replace(
            seen, past_turns=seen.past_turns[: seen.history_cut.first_turn + shown.index(upto) + 1]
        )
        prompt = await window.build_prompt(tx, seen, self._system, (Message("user", SUMMARY_PROMPT),))
        return _SummaryJob(lane, conversation, upto, seen.toolbox, prompt, len(seen.conversation.notes or ""))

    def _build_request(self, job: _SummaryJob) -> ModelRequest:
        return ModelRequest(
            messages=job.prompt,
            tools=job.toolbox.definitions,
            tool_choice="none",
            thinking=False,
            max_tokens=SUMMARY_TOKENS,
            session=f"{job.lane.key}/{job.conversation}",
            lane=f"{job.lane.key}/summary",
            priority=SUMMARIES_PRIORITY,
        )

    def _build_row(self, job: _SummaryJob) -> NewCall:
        system, *others = job.prompt
        return NewCall(
            turn=None,
            step=0,
            purpose="summary",
            again=None,
            endpoint=self._endpoint.url,
            model=self._endpoint.model_name(),
            thinking=False,
            tools_offered=len(job.toolbox.offered_names),
            chars_system=len(system.text),
            chars_tools=job.toolbox.size_chars,
            chars_notes=job.notes_chars,
            chars_history=max(0, sum(len(message.text) for message in others) - job.notes_chars),
            images=sum(len(message.images) for message in others),
        )

    async def _store_result(
        self, item: InboxItem, job: _SummaryJob | None = None, call_result: SystemCallResult | None = None
    ) -> None:
        """The item is done, whatever came of it; a summary is kept if the conversation is still the same."""

        async def write() -> None:
            now = time.time()
            async with self._database.transaction() as tx:
                if job is not None and call_result is not None:
                    await calls.close_call(tx, call_result.closing, now=now)
                    if text := _extract_summary(call_result):
                        await conversations.store_summary_ahead(
                            tx, job.lane, job.conversation, text, job.upto
                        )
                await inbox.mark_done(tx, [item.id], now=now)

        await retry_until_available(write)


def _extract_summary(call_result: SystemCallResult) -> str | None:
    if isinstance(call_result.result, CallFailed):
        log.warning("no summary was made: %s", call_result.result, extra={"action": "summary.failed"})
        return None
    verdict = replies.parse_reply(call_result.result, {})
    if not isinstance(verdict, AnswerReply):
        log.warning("a summary came without words", extra={"action": "summary.empty"})
        return None
    return verdict.text
