"""The question whether a tool call may run: what is asked, of whom, and its messages in chats.

`approvals` decides who is asked, and takes the answer.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from bot.agent import approval_prompt
from bot.agent.approval_policy import NEW_ADDRESS, RequireApproval
from bot.agent.approval_prompt import ApprovalPrompt
from bot.agent.tool_calls import CheckedCall
from bot.db.people import people
from bot.db.queues import outbox
from bot.db.tools import approvals as approval_rows
from bot.db.tools.approvals import ApprovalQuestion, NewApprovalQuestion
from bot.db.transaction import Transaction
from bot.domain import Lane, Part
from bot.translations.formats import format_series
from bot.translations.translator import ENGLISH, Translator, translatable
from tools.base import CallPreview, Tool, ToolError, hash_tool
from tools.builtin.ask import parse_question

ASKED_ADMINS = translatable(
    "I've asked the admins whether I may run {tool}. You can keep writing; I'll answer here."
)
ASKED_AFTER_TEXT_THERE = translatable(
    "Text from outside is part of that chat and may have told me to do this: {origins}."
)
MAX_ORIGINS = 3  # that a question names
_TARGET = re.compile(
    r"(?:(?P<method>[A-Z]+) )?https?://(?:[^/?#{]*@)?(?P<host>[\w.:\[\]-]{1,100})(?P<path>/[^?#]{1,100})?"
)


@dataclass(frozen=True, slots=True)
class Requester:
    """In which turn, for whom and where a call is made.

    `words` are what the person wrote, in the message `reply_to` if answers reply to it. `can_answer`: they
    are there now.
    """

    turn: int
    person: int
    name: str
    lane: Lane
    words: str = ""
    reply_to: int | None = None
    can_answer: bool = True


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that needs an approval.

    `has_open_question`: the question is put already. `preview`: what it does, of a tool of our own.
    `wording`: what the model itself asks with it, rendered.
    """

    call: CheckedCall
    tool: Tool
    requirement: RequireApproval
    has_open_question: bool = False
    preview: CallPreview | None = None
    wording: tuple[Part, ...] = ()


def build_question(
    requester: Requester, step: int, pending: PendingCall, *, expires_at: float
) -> NewApprovalQuestion:
    """The question as it is stored."""
    return NewApprovalQuestion(
        turn=requester.turn,
        step=step,
        call_id=pending.call.call.id,
        tool=pending.tool.name,
        arguments=approval_prompt.serialize_arguments(pending.call.arguments),
        hash=hash_tool(pending.tool),
        asker=requester.person,
        lane=requester.lane,
        who=pending.requirement.approver,
        why=_format_reason(ENGLISH, pending),
        binding=pending.requirement.binding,
        expires_at=expires_at,
    )


async def put_question(
    tx: Transaction,
    question: NewApprovalQuestion,
    requester: Requester,
    pending: PendingCall,
    recipients: Sequence[Lane],
    *,
    now: float,
) -> None:
    """Store a question with its message to each recipient; the requester learns of it in any case."""
    question_id = await approval_rows.insert_question(tx, question, now=now)
    for lane in recipients:
        translate = await people.find_translator(tx, lane.chat)
        if pending.wording:
            parts = _render_choices(translate, requester, pending, question_id)
        else:
            prompt = ApprovalPrompt(
                question.tool,
                question.arguments,
                requester.name,
                requester.person,
                _format_reason(translate, pending),
                question.binding,
                is_for_admins=question.who == "admins",
                preview=pending.preview,
                words=requester.words,
                description=pending.tool.description,
                minutes=math.ceil((question.expires_at - now) / 60),
            )
            parts = approval_prompt.render_question(translate, prompt, question_id)
        reply_to = requester.reply_to if pending.wording else None
        rows = await outbox.add(tx, item=None, lane=lane, parts=parts, reply_to=reply_to, now=now)
        await outbox.allow_repeat(tx, rows)
        await approval_rows.link_messages(tx, question_id, rows)
    if requester.lane not in recipients:
        translate = await people.find_translator(tx, requester.person)
        line = Part(translate(ASKED_ADMINS, tool=question.tool), silent=True)
        await outbox.add(tx, item=None, lane=requester.lane, parts=(line,), now=now)


def _render_choices(
    translate: Translator, requester: Requester, pending: PendingCall, question_id: int
) -> tuple[Part, ...]:
    choices = parse_question(pending.call.arguments["question"]).choices
    group_member = requester.name if requester.lane.is_group else None
    return approval_prompt.render_choices(translate, pending.wording, choices, question_id, group_member)


def find_choice(question: ApprovalQuestion, number: int) -> str | None:
    """A choice of a question of the model's own, counted from 0; None: it has no such, or is forgotten."""
    try:
        choices = parse_question(json.loads(question.arguments).get("question", "")).choices
    except ToolError:
        return None
    return choices[number] if number < len(choices) else None


def _format_reason(translate: Translator, pending: PendingCall) -> str:
    """Why a call asks first, where it goes, and what is sent with every such call, as sentences.

    The path of its address, which may hold a secret, is for admins, and they are told of a chat of others.
    """
    requirement = pending.requirement
    is_for_admins = requirement.approver == "admins"
    sentences = [translate(requirement.reason)]
    if is_for_admins and requirement.origins:
        origins = [name or translate("a message, file or image") for name in sorted(requirement.origins)]
        sentences = [
            translate(ASKED_AFTER_TEXT_THERE, origins=format_series(translate, origins[:MAX_ORIGINS]))
        ]
    if requirement.new_host:
        sentences.append(translate(NEW_ADDRESS, host=requirement.new_host))
    match = _TARGET.match(pending.tool.address)
    if match is not None:
        target = " ".join(filter(None, (match["method"], match["host"])))
        if is_for_admins and match["method"]:
            target += match["path"] or ""
        sentences.append(translate("It goes to {target}.", target=target))
    if pending.tool.fixed:
        pairs = format_series(
            translate, (f"{name} {text}" for name, text in sorted(pending.tool.fixed.items()))
        )
        sentences.append(translate("Always set: {values}.", values=pairs))
    return " ".join(sentences)
