"""Stores a turn as it was planned, or finds what an earlier attempt stored of it.

Only writes, and reads what others may have changed since the plan was made.
"""

from dataclasses import dataclass

from bot.db.conversations import attachments, calls, conversations, instructions, stored_files, turns
from bot.db.conversations.calls import InterruptedCall, StoredResult
from bot.db.conversations.conversations import Conversation
from bot.db.conversations.turns import NewTurn, StoredTurn
from bot.db.people import group_texts
from bot.db.queues import admin_notices, outbox
from bot.db.transaction import Transaction
from bot.domain import Message, Part, Reply
from bot.tool_registry.toolbox import Toolbox
from bot.turns import context_window
from bot.turns.said_before import load_texts
from bot.turns.turn_plan import TurnPlan
from bot.turns.turn_request import TurnConfig, TurnRequest


@dataclass(frozen=True, slots=True)
class PreparedTurn:
    """A turn as it is stored: how it was planned, and what an earlier attempt stored of it.

    `is_stopped`: a /stop has met it already.
    `has_documents`: some came with its messages and were read.
    `interrupted_call`: the newest call, if it has to be made again.
    """

    plan: TurnPlan
    id: int
    toolbox: Toolbox
    is_stopped: bool
    has_documents: bool
    replies: tuple[Reply, ...] = ()
    interrupted_call: InterruptedCall | None = None
    results: tuple[StoredResult, ...] = ()

    @property
    def request(self) -> TurnRequest:
        """What it is to answer."""
        return self.plan.request

    @property
    def conversation(self) -> Conversation:
        """The conversation it belongs to."""
        return self.plan.window.conversation

    @property
    def is_resumed(self) -> bool:
        """Whether an earlier attempt has begun it."""
        return self.plan.stored_turn is not None

    @property
    def is_over(self) -> bool:
        """Whether an earlier attempt has ended it."""
        return self.plan.stored_turn is not None and self.plan.stored_turn.state != "running"

    @property
    def needs_cut_notice(self) -> bool:
        """Whether turns have left the prompt, and the chat has not been notified yet."""
        conversation = self.conversation
        return conversation.cut is not None and not conversation.told_cut and not conversation.is_over

    @property
    def needs_search_notice(self) -> bool:
        """Whether the chat has not been notified yet that its earlier conversations are searched."""
        return self.conversation.searchable_from is not None and not self.request.lane.is_guest

    @property
    def stored_messages(self) -> tuple[Message, ...]:
        """All messages of the turn that are stored, but the user's."""
        return self.plan.stored_turn.agent_messages if self.plan.stored_turn is not None else ()


async def prepare_turn(
    tx: Transaction, config: TurnConfig, plan: TurnPlan, *, now: float
) -> PreparedTurn | None:
    """Store a turn as it was planned, or that an earlier one resumes.

    None: its conversation has changed since, or it had begun already, so that it must be planned again.
    """
    if await _has_changed(tx, plan, now):
        return None
    if plan.stored_turn is None:
        turn = await _store_turn(tx, plan, now)
    else:
        turn = await _resume_turn(tx, config, plan, plan.stored_turn, now)
    if turn is not None:
        await _store_window(tx, plan)
    return turn


async def _has_changed(tx: Transaction, plan: TurnPlan, now: float) -> bool:
    """Whether what the plan read of the conversation has changed, as by /think, a summary or a deletion."""
    lane = plan.request.lane
    stored = plan.window.stored_conversation
    planned = plan.window.conversation
    if await conversations.find(tx, lane) != stored:
        return True
    if plan.stored_turn is None and await load_texts(tx, plan.request, now=now) != plan.said_before:
        return True
    if planned.is_over:
        return False
    if stored.instructions is None and (await instructions.find(tx, lane)).text != planned.instructions:
        return True
    fixes_notes = plan.is_cut or stored.notes is None
    return fixes_notes and await context_window.load_notes(tx, lane) != planned.notes


async def _store_turn(tx: Transaction, plan: TurnPlan, now: float) -> PreparedTurn | None:
    """Store a new turn; None if it is stored already."""
    request = plan.request
    new_turn = NewTurn(
        item=request.items[0].id,
        lane=request.lane,
        person=request.person,
        conversation=plan.window.conversation.number,
        tools=plan.window.toolbox.offered_names,
        thinking=plan.decision.thinking,
        thinking_why=plan.decision.reason,
        received_at=request.items[0].received_at,
        preface=request.preface,
    )
    items = [item.id for item in request.items]
    turn = await turns.open_turn(tx, new_turn, items, plan.user_messages, now=now)
    if turn is None:
        return None
    if plan.said_before:
        await group_texts.delete_texts(tx, plan.said_before)
    has_documents = False
    if request.attachment_count:
        await _store_attachments(tx, turn.id, request, now)
        has_documents = await attachments.has_documents(tx, turn.id)
    if plan.preflight_call is not None:
        await calls.assign_to_turn(tx, plan.preflight_call, turn.id)
    return PreparedTurn(plan, turn.id, plan.window.toolbox, turn.stopped, has_documents)


async def _store_attachments(tx: Transaction, turn: int, request: TurnRequest, now: float) -> None:
    """Store what came with the messages; older files leave the store, once their sender has been told."""
    person = request.person
    await attachments.store(tx, turn, person, request.attachments)
    if await stored_files.count_bytes(tx, person) < stored_files.TELL_BYTES:
        return
    if not await admin_notices.record_if_changed(tx, f"stored files of {person}", "told", now=now):
        await stored_files.free_space(tx, person)
        return
    told = request.translate(
        "Your files nearly fill the space I have for you. From now on, I'll delete the text of your oldest "
        "files to make room for new ones. Our messages stay."
    )
    part = Part(told, silent=True)
    await outbox.add(tx, item=None, lane=request.lane, parts=(part,), reply_to=request.reply_to, now=now)


async def _resume_turn(
    tx: Transaction, config: TurnConfig, plan: TurnPlan, turn: StoredTurn, now: float
) -> PreparedTurn:
    await calls.abandon_model_calls(tx, turn.id, now=now)
    results = tuple(await calls.load_tool_results(tx, turn.id))
    called_tools = [result.call.name for result in results if result.outcome != "refused"]
    return PreparedTurn(
        plan,
        turn.id,
        config.tool_registry.extend_toolbox(plan.toolbox_for(turn.tools), called_tools),
        await turns.is_stopped(tx, turn.id),
        await attachments.has_documents(tx, turn.id),
        replies=tuple(await calls.load_replies(tx, turn.id)),
        interrupted_call=await calls.find_interrupted_call(tx, turn.id),
        results=results,
    )


async def _store_window(tx: Transaction, plan: TurnPlan) -> None:
    """Store that the conversation has begun, or that it is cut."""
    lane = plan.request.lane
    conversation = plan.window.conversation
    if plan.is_cut and not conversation.is_over:
        await conversations.store_cut(tx, lane, conversation)
    elif not plan.is_cut and not plan.window.is_begun:
        await conversations.begin(tx, lane, conversation, plan.window.toolbox.offered_names)
