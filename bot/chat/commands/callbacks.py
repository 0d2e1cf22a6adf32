"""What the buttons do.

A tap may come late, twice, or from somebody who was never shown the button: each action checks for itself
that its subject still exists and belongs to the chat it came from.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from bot.chat.actions import (
    Action,
    ActionContext,
    ActionResult,
    ButtonExpired,
    ReadOnlyAction,
    redraw_list,
)
from bot.chat.commands import (
    approvals,
    consent,
    conversation,
    edited_messages,
    export,
    files,
    find,
    forget,
    group_cards,
    instructions,
    job_cards,
    jobs,
    language,
    people,
    retries,
    sign_in,
    snooze,
    strangers,
    think,
    tool_answers,
    tool_cards,
    usage,
)
from bot.chat.commands.welcome import list_examples
from bot.db.conversations import notes
from bot.db.conversations.retries import find_last_turn
from bot.db.people.people import RoleOrBlocked
from bot.db.queues import first_sends, inbox, outbox, stop_requests
from bot.domain import Part
from bot.errors import ChangeRefused

CONTINUE_PROMPT = "Please go on exactly where you stopped."
"""The request to the model when a person wants more of an answer that was cut at its length."""


@dataclass(frozen=True, slots=True)
class ButtonKind:
    """One kind of button: what it does, and who may tap it.

    `name`: the word with which its data begins, before a colon.
    `in_groups`: whether it works in a group; others are for the private chat alone.
    `concerns_others`: in a group it may be about what others asked, so it matters who moderates there.
    """

    name: str
    action: Action
    min_role: Literal["member", "admin"] = "member"
    in_groups: bool = True
    concerns_others: bool = False


def find_button(data: str) -> ButtonKind | None:
    """Return the kind of the button with this data."""
    name = data.partition(":")[0]
    return next((button for button in BUTTONS if button.name == name), None)


def choose_button_action(
    data: str, role: RoleOrBlocked | None, *, in_group: bool = False
) -> tuple[Action, str]:
    """Return what a button with this data does for somebody of this role, and its arguments."""
    button = find_button(data)
    if role is None or button is None:
        return _reject, ""
    if in_group and not button.in_groups:
        return _send_to_private_chat, ""
    if button.min_role == "admin" and role != "admin":
        return _reject, ""
    return button.action, data.partition(":")[2]


async def _reject(context: ActionContext) -> ActionResult:
    if context.role:
        raise ButtonExpired
    raise ChangeRefused("You don't have access to this bot.")


async def _send_to_private_chat(context: ActionContext) -> ActionResult:
    raise ChangeRefused("That works only in our private chat.")


async def _stop_turn(context: ActionContext, item: int) -> ActionResult:
    is_of_others = await stop_requests.is_of_others(context.tx, context.lane, item, context.person)
    if is_of_others and not context.moderates:
        raise ChangeRefused(conversation.STOP_REFUSAL)
    is_running = await stop_requests.stop_turn(context.tx, context.lane, item)
    if is_running is None:
        return await _complete_answer(context, item)
    if not is_running:
        # A due task was parked: what runs in its lane is another turn.
        return ActionResult(toast=context.translate("Stopped."))
    cut = partial(context.deps.turns.control.stop, context.lane, context.item.id)
    return ActionResult(toast=context.translate("Stopped."), after_commit=(cut,))


async def _complete_answer(context: ActionContext, item: int) -> ActionResult:
    """Complete an answer that stands half shown with its Stop button: the tap says which message it is."""
    toast = context.translate("This has already ended.")
    message = context.item.body["callback_query"].get("message")
    if message and await first_sends.confirm(context.tx, item, context.lane, message["message_id"]):
        return ActionResult(toast=toast)
    return ActionResult(toast=toast, best_effort_calls=context.remove_tapped_buttons())


async def _drop_waiting(context: ActionContext, item: int) -> ActionResult:
    """Drop what waited when the /stop `item` came: it may have become the running turn since."""
    stopped = await stop_requests.stop(context.tx, context.lane, before=item, now=context.now)
    dropped = stopped.dropped
    if stopped.running:
        dropped += await stop_requests.drop_waiting(context.tx, context.lane, before=item, now=context.now)
    if dropped or stopped.running:
        line = context.translate("Skipped.")
    else:
        line = context.translate("Nothing is waiting anymore.")
    cut = partial(context.deps.turns.control.stop, context.lane, (stopped.last_item or item) + 1)
    return ActionResult(toast=line, replacement=Part(line), after_commit=(cut,))


async def _delete_note(context: ActionContext, note_id: int) -> ActionResult:
    context.check_may_change_chat()
    number = await notes.delete(context.tx, context.lane, note_id)
    if number is None:
        toast = context.translate("This note is already gone.")
    else:
        toast = context.translate("Note {number} is deleted.", number=number)
    return redraw_list(toast, await conversation.build_notes_pages(context))


async def _ask_example(context: ActionContext, number: int) -> ActionResult:
    examples = list_examples(context.deps.settings)
    if number >= len(examples):
        raise ButtonExpired
    example = context.translate(examples[number])
    await conversation.queue_task(context, (example,))
    text = context.translate("You asked: {question}", question=example)
    return ActionResult(parts=(Part(text, silent=True),))


async def _continue_answer(context: ActionContext, turn: int) -> ActionResult:
    """Continue an answer that was cut at its length, if nothing has come or been asked since."""
    remove_buttons = context.remove_tapped_buttons()
    last = await find_last_turn(context.tx, context.lane, before_item=context.item.id)
    if last is None or last.id != turn:
        return ActionResult(
            toast=context.translate("This is no longer the last answer."), best_effort_calls=remove_buttons
        )
    if not retries.may_repeat(context, last):
        raise ChangeRefused("Only the person who asked can do that.")
    if await inbox.is_lane_busy(context.tx, context.lane):
        return ActionResult(
            toast=context.translate("I'm already working on something newer."),
            best_effort_calls=remove_buttons,
        )
    await conversation.queue_task(context, (CONTINUE_PROMPT,), deep=last.deep, continues=True)
    return ActionResult(toast=context.translate("I'll go on."), best_effort_calls=remove_buttons)


async def _resend_message(context: ActionContext, row: int) -> ActionResult:
    context.check_may_change_chat()
    if not await outbox.send_again(context.tx, row, lane=context.lane, now=context.now):
        raise ChangeRefused("I've already sent it again.")
    return ActionResult(toast=context.translate("I'll send it again."))


def _with_number(action: Callable[[ActionContext, int], Awaitable[ActionResult]]) -> Action:
    """Make an action of one that takes the number that its button carries."""

    async def parse_and_act(context: ActionContext) -> ActionResult:
        return await action(context, int(context.match_args(_NUMBER)[0]))

    return parse_and_act


_NUMBER = re.compile(r"[0-9]{1,18}")
BUTTONS = (
    ButtonKind("new", conversation.handle_new_button, concerns_others=True),
    ButtonKind("stop", _with_number(_stop_turn), concerns_others=True),
    ButtonKind("allow", approvals.handle_answer_button, concerns_others=True),
    ButtonKind("choice", approvals.handle_choice_button, concerns_others=True),
    ButtonKind("signin", sign_in.handle_sign_in_button, in_groups=False),
    ButtonKind("answer", tool_answers.handle_answer_button, concerns_others=True),
    ButtonKind("revoke", _with_number(approvals.handle_revoke_button)),
    ButtonKind("again", _with_number(_resend_message), concerns_others=True),
    ButtonKind("drop", _with_number(_drop_waiting)),
    ButtonKind("retry", retries.handle_retry_button, concerns_others=True),
    ButtonKind("redo", retries.handle_offer_button, concerns_others=True),
    ButtonKind("edit", edited_messages.handle_card_button, concerns_others=True),
    ButtonKind("note", _with_number(_delete_note), concerns_others=True),
    ButtonKind("ask", _with_number(_ask_example)),
    ButtonKind("stranger", strangers.handle_card_button, min_role="admin", in_groups=False),
    ButtonKind("group", group_cards.handle_group_button, min_role="admin", in_groups=False),
    ButtonKind("people", people.handle_people_button, min_role="admin", in_groups=False),
    ButtonKind("tools", tool_cards.handle_tool_button, min_role="admin", in_groups=False),
    ButtonKind("consent", consent.handle_consent_button, in_groups=False),
    ButtonKind("speech", consent.handle_speech_button, concerns_others=True),
    ButtonKind("more", _with_number(_continue_answer), concerns_others=True),
    ButtonKind("language", language.handle_language_button, in_groups=False),
    ButtonKind("think", think.handle_think_button, concerns_others=True),
    ButtonKind("instructions", instructions.handle_button, concerns_others=True),
    ButtonKind("found", ReadOnlyAction(_with_number(find.handle_found_button))),
    ButtonKind("keep", _with_number(files.handle_keep_button), concerns_others=True),
    ButtonKind("file", _with_number(files.handle_delete_button), concerns_others=True),
    ButtonKind("documents", files.handle_documents_button, min_role="admin", in_groups=False),
    ButtonKind("forget", forget.handle_forget_button, concerns_others=True),
    ButtonKind("export", export.handle_export_button, concerns_others=True),
    ButtonKind("job", job_cards.handle_job_button, concerns_others=True),
    ButtonKind("remind", _with_number(jobs.handle_remind_button)),
    ButtonKind("zone", jobs.handle_zone_button),
    ButtonKind("snooze", snooze.handle_snooze_button, concerns_others=True),
    ButtonKind("usage", ReadOnlyAction(usage.handle_summary_button)),
    ButtonKind("details", ReadOnlyAction(_with_number(usage.handle_details_button))),
    ButtonKind("picture", ReadOnlyAction(usage.handle_chart_button)),
)
