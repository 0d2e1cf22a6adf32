"""Summarizes ahead, between turns, what leaves a chat's prompt next; the next cut uses the summary.

Runs the gateway's own inbox items of this kind. They hold no lane, and their calls queue behind those of
users and tasks: a user waits for one only where all seats are taken, and then no longer than its two
canvases.
"""

import logging
import time
from dataclasses import dataclass, replace

from bot.agent import prompt as prompts
from bot.agent import reply_parser, taint
from bot.agent.reply_parser import AnswerReply
from bot.db.conversations import calls, conversations, turns
from bot.db.conversations.calls import NewCall
from bot.db.conversations.conversations import Conversation
from bot.db.engine import Database
from bot.db.queues import inbox
from bot.db.queues.item_bodies import SummaryOrder
from bot.db.retry import retry_until_available
from bot.db.transaction import Transaction
from bot.domain import SUMMARIES_PRIORITY, InboxItem, Lane, Message, ModelRequest
from bot.errors import CallFailed, ShareLost
from bot.tool_registry.registry import ToolRegistry
from bot.tool_registry.toolbox import Toolbox
from bot.turns import context_window
from bot.turns.call_ledger import CallLedger, SystemCallResult
from bot.turns.endpoints import ModelEndpoint

NEARLY_FULL_SHARE = 0.7  # of the tokens a prompt may have: from this on a cut is near
SUMMARY_TOKENS = 512  # two canvases

# Asked at the end of the chat's own prompt, which the endpoint has in its cache: a separate prompt would be
# computed from its beginning. The roles in it stay as they are, and the summary is given to later prompts as
# data.
SUMMARY_PROMPT = (
    "This is asked by the bot itself, not by the user: sum this conversation up for yourself, "
    "since its beginning is about to leave your sight. "
    "At most 200 words of plain text in its language: "
    "what the user wants, what was found out and decided, what is still open; "
    "names, numbers, dates and addresses exactly. "
    "What an earlier summary tells stays in it. "
    "Add nothing of your own, call no tool and answer nothing else."
)

log = logging.getLogger(__name__)


async def enqueue_summary(tx: Transaction, lane: Lane, *, now: float) -> bool:
    """Enqueue a summary of the lane's ended turns, except the newest, which a /retry may still replace.

    False if there is nothing to do.
    """
    conversation = await conversations.find(tx, lane)
    past_turns = await turns.list_past_turns(tx, lane, conversation.number)
    if has_summary_ahead(conversation) or len(past_turns) < 2:
        return False
    order = SummaryOrder(lane, conversation.number, past_turns[-2].id)
    await inbox.add(tx, kind="system", lane=None, sender=None, body=order.serialize(), now=now)
    return True


def has_summary_ahead(conversation: Conversation) -> bool:
    """Whether a summary is ready that covers turns still in the prompt."""
    if conversation.summary_ahead is None:
        return False
    return (conversation.summary_upto or 0) > (conversation.cut or 0)


@dataclass(frozen=True, slots=True)
class _SummaryJob:
    """What to summarize, as a prompt; `upto` is the newest turn it covers.

    `is_outside`: text of strangers is in the prompt.
    """

    lane: Lane
    conversation: int
    upto: int
    toolbox: Toolbox
    prompt: tuple[Message, ...]
    notes_chars: int
    is_outside: bool


class Summarizer:
    """Runs summary items.

    `system`, `tool_registry`: those of the turns, so that the prompts are the same.
    `is_enabled`: False where SUMMARY is off; items are then done without a summary.
    """

    def __init__(
        self,
        database: Database,
        ledger: CallLedger,
        endpoint: ModelEndpoint,
        *,
        system: str,
        tool_registry: ToolRegistry,
        is_enabled: bool,
    ) -> None:
        self._database = database
        self._ledger = ledger
        self._endpoint = endpoint
        self._system = system
        self._tool_registry = tool_registry
        self._is_enabled = is_enabled
        self._busy_lanes: set[str] = set()

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        order = SummaryOrder.parse(item.body)
        lane = order.lane
        if lane.key in self._busy_lanes or not self._is_enabled:
            await self._store_result(item)
            return
        self._busy_lanes.add(lane.key)
        try:
            await self._summarize(item, order)
        finally:
            self._busy_lanes.discard(lane.key)

    async def _summarize(self, item: InboxItem, order: SummaryOrder) -> None:
        async with self._database.read_transaction() as tx:
            job = await self._load_job(tx, order)
        if job is None:
            await self._store_result(item)
            return
        call_result = await self._ledger.call_once(
            self._endpoint.model, self._build_request(job), self._build_row(job, is_repeated=item.attempt > 1)
        )
        try:
            await self._store_result(item, job, call_result)
        except ShareLost:
            await self._ledger.close(call_result.closing)
            raise

    async def _load_job(self, tx: Transaction, order: SummaryOrder) -> _SummaryJob | None:
        """None if nothing is left to do.

        The conversation is over, the turns have left its prompt, or there is a summary already.
        """
        system = prompts.describe_chat(self._system, order.lane)
        window = await context_window.load_window(
            tx, order.lane, system, self._tool_registry.make_toolbox_builder(order.lane.chat)
        )
        conversation = window.conversation
        if conversation.number != order.conversation or has_summary_ahead(conversation):
            return None
        held_turns = [turn.id for turn in window.past_turns[window.history_cut.first_turn :]]
        if order.upto not in held_turns:
            return None
        turn_count = window.history_cut.first_turn + held_turns.index(order.upto) + 1
        window = replace(window, past_turns=window.past_turns[:turn_count])
        question = Message("user", SUMMARY_PROMPT)
        prompt = await context_window.build_prompt(tx, window, system, (question,))
        taint_state = taint.build_taint_state(
            prompt, (question,), window.toolbox.tools, is_summary_outside=conversation.is_summary_outside
        )
        return _SummaryJob(
            order.lane,
            order.conversation,
            order.upto,
            window.toolbox,
            prompt,
            notes_chars=len(conversation.notes or ""),
            is_outside=bool(taint_state.origins),
        )

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

    def _build_row(self, job: _SummaryJob, *, is_repeated: bool) -> NewCall:
        system, *conversation = job.prompt
        return NewCall(
            turn=None,
            step=0,
            purpose="summary",
            again="restart" if is_repeated else None,
            endpoint=self._endpoint.url,
            model=self._endpoint.model_name(),
            thinking=False,
            tools_offered=len(job.toolbox.offered_names),
            chars_system=len(system.text),
            chars_tools=job.toolbox.size_chars,
            chars_notes=job.notes_chars,
            chars_history=max(0, sum(len(message.text) for message in conversation) - job.notes_chars),
            images=sum(len(message.images) for message in conversation),
        )

    async def _store_result(
        self, item: InboxItem, job: _SummaryJob | None = None, call_result: SystemCallResult | None = None
    ) -> None:
        """Mark the item done, and store the summary if the conversation is still the same."""

        async def write() -> None:
            now = time.time()
            async with self._database.transaction() as tx:
                if job is not None and call_result is not None:
                    await calls.close_call(tx, call_result.closing, now=now)
                    if text := _extract_summary(call_result):
                        await conversations.store_summary_ahead(
                            tx, job.lane, job.conversation, text, job.upto, is_outside=job.is_outside
                        )
                await inbox.mark_done(tx, [item.id], now=now)

        await retry_until_available(write)


def _extract_summary(call_result: SystemCallResult) -> str | None:
    if isinstance(call_result.result, CallFailed):
        log.warning("no summary was made: %s", call_result.result, extra={"action": "summary.failed"})
        return None
    verdict = reply_parser.parse_reply(call_result.result, {})
    if not isinstance(verdict, AnswerReply):
        log.warning("a summary came without words", extra={"action": "summary.empty"})
        return None
    return verdict.text
