"""What the buttons do. A tap may come late, twice, or from somebody who was never shown the button: each act
finds out for itself whether what it is about still stands, and belongs to the chat it came from.
"""

import re
from collections.abc import Awaitable, Callable
from functools import partial

from bot.db.conversations import notes, retries
from bot.db.people.people import RoleOrBlocked
from bot.db.queues import inbox, outbox
from bot.db.queues import stop_requests as stopping
from bot.domain import Part
from bot.telegram.actions import BUTTON_EXPIRED, Action, ActionContext, ActionResult
from bot.telegram.commands import approvals as approving
from bot.telegram.commands import consent, forget, jobs
from bot.telegram.commands import people as members
from bot.telegram.commands import registry as commands
from bot.telegram.commands import think as thinking
from bot.telegram.commands import tool_cards as toolcards
from bot.telegram.commands import usage as accounts
from bot.telegram.commands.greeting import EXAMPLES

CONTINUE_PROMPT = "Please go on exactly where you stopped."
"""What the model is told when the person wants more of an answer that was cut at its length."""


def choose_button_action(data: str, role: RoleOrBlocked | None) -> tuple[Action, str]:
    """What a button with this data does for somebody of this standing, and the words it carries."""
    name, _, words = data.partition(":")
    act = _BUTTON_ACTIONS.get(name)
    if role is None or act is None or (name in _ADMIN_BUTTONS and role != "admin"):
        return _reject, ""
    return act, words


async def _reject(context: ActionContext) -> ActionResult:
    if context.role:
        return BUTTON_EXPIRED
    return ActionResult(toast="You have no access to this bot.")


async def _stop_turn(context: ActionContext, item: int) -> ActionResult:
    runs = await stopping.stop_turn(context.tx, context.lane, item)
    if runs is None:
        return ActionResult(toast="This has ended already.")
    # A due task may have given way: then what runs in its lane is another turn.
    cut = partial(context.deps.turns.stop, context.lane, context.item.id)
    return ActionResult(toast="Stopped.", after_commit=(cut,) if runs else ())


async def _drop_waiting(context: ActionContext, item: int) -> ActionResult:
    """Drop what waited when the /stop `item` came: it may have become the running turn since."""
    stopped = await stopping.stop(context.tx, context.lane, before=item, now=context.now)
    dropped = stopped.dropped
    if stopped.running:
        dropped += await stopping.drop_waiting(context.tx, context.lane, before=item, now=context.now)
    if dropped or stopped.running:
        line = "Dropped."
    else:
        line = "Nothing waits any more."
    return ActionResult(
        toast=line,
        replacement=Part(line),
        after_commit=(partial(context.deps.turns.stop, context.lane, item),),
    )


async def _retry_turn(context: ActionContext, turn: int) -> ActionResult:
    last = await retries.find_last_turn(context.tx, context.lane, before_item=context.item.id)
    if last is None or last.id != turn:
        return ActionResult(
            toast="This is not the last answer any more.", replacement=Part("Not tried again.")
        )
    asked = await commands.repeat_turn(context, last)
    return ActionResult(
        toast="Trying again.", replacement=Part("Trying again."), after_commit=asked.after_commit
    )


async def _delete_note(context: ActionContext, note_id: int) -> ActionResult:
    number = await notes.delete(context.tx, context.lane, note_id)
    shown = await commands.build_notes_pages(context)
    if number is None:
        toast = "This note is gone already."
    else:
        toast = f"Note {number} is deleted."
    return ActionResult(toast=toast, replacement=shown[0] if len(shown) == 1 else None)


async def _ask_example(context: ActionContext, number: int) -> ActionResult:
    if number >= len(EXAMPLES):
        return BUTTON_EXPIRED
    asked = await commands.queue_task(context, (EXAMPLES[number],))
    return ActionResult(
        parts=(Part(f"You ask: {EXAMPLES[number]}", silent=True),), after_commit=asked.after_commit
    )


async def _continue_answer(context: ActionContext, turn: int) -> ActionResult:
    """Go on with an answer that was cut at its length, if nothing has come or been asked since."""
    message = context.item.body["callback_query"].get("message")
    strip: tuple[Callable[[], Awaitable[None]], ...] = ()
    if message:
        strip = (partial(context.deps.best_effort_calls.remove_buttons, context.lane, message["message_id"]),)
    last = await retries.find_last_turn(context.tx, context.lane, before_item=context.item.id)
    if last is None or last.id != turn:
        return ActionResult(toast="This is not the last answer any more.", best_effort_calls=strip)
    if await inbox.is_lane_busy(context.tx, context.lane):
        return ActionResult(toast="Something newer is under way already.", best_effort_calls=strip)
    asked = await commands.queue_task(context, (CONTINUE_PROMPT,), deep=last.deep, continues=True)
    return ActionResult(toast="I go on.", after_commit=asked.after_commit, best_effort_calls=strip)


async def _resend_message(context: ActionContext, row: int) -> ActionResult:
    if not await outbox.send_again(context.tx, row, lane=context.lane, now=context.now):
        return ActionResult(toast="It has been sent again already.")
    return ActionResult(
        toast="It comes again.", after_commit=(partial(context.deps.wake_sender, context.lane),)
    )


def _with_number(action: Callable[[ActionContext, int], Awaitable[ActionResult]]) -> Action:
    """An act of a button that carries one number."""

    async def acting(call: ActionContext) -> ActionResult:
        if _NUMBER.fullmatch(call.args):
            return await action(call, int(call.args))
        return BUTTON_EXPIRED

    return acting


_NUMBER = re.compile(r"[0-9]{1,18}")
_ADMIN_BUTTONS = {"people", "tools"}
_BUTTON_ACTIONS: dict[str, Action] = {
    "stop": _with_number(_stop_turn),
    "allow": approving.handle_answer_button,
    "revoke": approving.handle_revoke_button,
    "again": _with_number(_resend_message),
    "drop": _with_number(_drop_waiting),
    "retry": _with_number(_retry_turn),
    "note": _with_number(_delete_note),
    "ask": _with_number(_ask_example),
    "people": members.handle_people_button,
    "tools": toolcards.handle_tool_button,
    "consent": consent.handle_consent_button,
    "more": _with_number(_continue_answer),
    "think": thinking.handle_think_button,
    "forget": forget.handle_forget_button,
    "job": jobs.handle_job_button,
    "usage": accounts.handle_summary_button,
    "details": _with_number(accounts.handle_details_button),
    "picture": accounts.handle_chart_button,
}
