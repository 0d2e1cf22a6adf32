"""Opens a turn as it was planned, or resumes it after a restart; execution.py runs it from there.

Only writes, and reads what others may have changed since the plan was made.
"""

from dataclasses import dataclass, field, replace

from bot.agent.answer_sources import EarlierResults
from bot.agent.toolbox import Toolbox
from bot.db.conversations import attachments, calls, conversations, instructions, stored_files, turns
from bot.db.conversations.calls import InterruptedCall, StoredResult
from bot.db.conversations.turns import NewTurn, StoredTurn
from bot.db.people import group_texts, groups
from bot.db.queues import admin_notices, outbox
from bot.db.transaction import Transaction
from bot.domain import Lane, Message, Part, Reply
from bot.turns import context_window
from bot.turns.said_before import load_texts
from bot.turns.turn_plan import TurnPlan
from bot.turns.turn_request import TurnConfig, TurnRequest


@dataclass(frozen=True, slots=True)
class PreparedTurn:
    """A turn ready to run: its prompt, and what an earlier attempt stored of it.

    `prompt_tokens`: estimate for the prompt.
    `tokens_left`: estimate of what the turn's steps may add to it.
    `needs_cut_notice`: turns have left the prompt, and the chat has not been notified yet.
    `is_summary_outside`: the summary in its prompt was made of text of strangers.
    `is_conversation_over`: the turn belongs to a conversation that has ended.
    `preface`: put before its answer.
    `stored_messages`: all messages of the turn but the user's.
    `interrupted_call`: the newest call, if it has to be made again.
    """

    id: int
    conversation_number: int
    user_messages: tuple[Message, ...]
    toolbox: Toolbox
    thinking: bool = False
    may_think: bool = True
    preface: str = ""
    prompt: tuple[Message, ...] = ()
    prompt_tokens: int = 0
    tokens_left: int = 0
    notes_chars: int = 0
    needs_cut_notice: bool = False
    is_summary_outside: bool = False
    is_conversation_over: bool = False
    is_resumed: bool = False
    is_stopped: bool = False
    is_over: bool = False
    stored_messages: tuple[Message, ...] = ()
    replies: tuple[Reply, ...] = ()
    interrupted_call: InterruptedCall | None = None
    results: tuple[StoredResult, ...] = ()
    earlier_results: EarlierResults = field(default_factory=EarlierResults)


async def open_turn(
    tx: Transaction, config: TurnConfig, request: TurnRequest, plan: TurnPlan, *, now: float
) -> PreparedTurn | None:
    """Store a turn as it was planned, or that an earlier one resumes.

    None: its conversation has changed since, or it had begun already, so that it must be planned again.
    """
    if await _has_changed(tx, request, plan, now):
        return None
    if plan.stored_turn is None:
        turn = await _store_turn(tx, request, plan, now)
    else:
        turn = await _resume_turn(tx, config, plan, plan.stored_turn, now)
    if turn is None:
        return None
    await _store_window(tx, request.lane, plan)
    conversation = plan.window.conversation
    is_cut_unknown = conversation.cut is not None and not conversation.told_cut
    return replace(
        turn,
        may_think=plan.may_think,
        prompt=plan.prompt,
        prompt_tokens=plan.prompt_tokens,
        tokens_left=plan.tokens_left,
        notes_chars=len(conversation.notes or ""),
        needs_cut_notice=is_cut_unknown and not conversation.is_over,
        is_summary_outside=conversation.is_summary_outside,
        is_conversation_over=conversation.is_over,
        earlier_results=plan.earlier_results,
    )


async def _has_changed(tx: Transaction, request: TurnRequest, plan: TurnPlan, now: float) -> bool:
    """Whether what the plan read of the conversation has changed, as by /think, a summary or a deletion."""
    lane = request.lane
    if await groups.find_lane(tx, lane) != lane:
        return True
    stored = plan.window.stored_conversation
    planned = plan.window.conversation
    if await conversations.find(tx, lane) != stored:
        return True
    if plan.stored_turn is None and await load_texts(tx, request, now=now) != plan.said_before:
        return True
    if planned.is_over:
        return False
    if stored.instructions is None and (await instructions.find(tx, lane)).text != planned.instructions:
        return True
    fixes_notes = plan.is_cut or stored.notes is None
    return fixes_notes and await context_window.load_notes(tx, lane) != planned.notes


async def _store_turn(
    tx: Transaction, request: TurnRequest, plan: TurnPlan, now: float
) -> PreparedTurn | None:
    """Store a new turn; None if it is stored already."""
    number = plan.window.conversation.number
    new_turn = NewTurn(
        item=request.items[0].id,
        lane=request.lane,
        person=request.person,
        conversation=number,
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
    if request.attachment_count:
        await _store_attachments(tx, turn.id, request, now)
    if plan.preflight_call is not None:
        await calls.assign_to_turn(tx, plan.preflight_call, turn.id)
    return PreparedTurn(
        turn.id,
        number,
        plan.user_messages,
        plan.window.toolbox,
        plan.decision.thinking,
        preface=request.preface,
        is_stopped=turn.stopped,
    )


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
        "The files that you sent me are nearly as much as I can keep for you. From now on I delete the "
        "text of your oldest ones to make room for new ones. What we wrote to each other stays."
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
        turn.id,
        turn.conversation,
        turn.user_messages,
        config.tool_registry.extend_toolbox(plan.toolbox_for(turn.tools), called_tools),
        turn.thinking,
        preface=turn.preface,
        is_resumed=True,
        is_stopped=await turns.is_stopped(tx, turn.id),
        is_over=turn.state != "running",
        stored_messages=turn.agent_messages,
        replies=tuple(await calls.load_replies(tx, turn.id)),
        interrupted_call=await calls.find_interrupted_call(tx, turn.id),
        results=results,
    )


async def _store_window(tx: Transaction, lane: Lane, plan: TurnPlan) -> None:
    """Store that the conversation has begun, or that it is cut."""
    conversation = plan.window.conversation
    if plan.is_cut and not conversation.is_over:
        await conversations.store_cut(tx, lane, conversation)
    elif not plan.is_cut and not plan.window.is_begun:
        await conversations.begin(tx, lane, conversation, plan.window.toolbox.offered_names)
