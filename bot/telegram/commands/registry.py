"""The list of all commands: name, line of help, who may use it, whether menus show it, and what it does.

/help, the menus and the runner of updates all use this list. Short commands are implemented here.
"""

import re
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from bot.db.conversations import conversations, notes, retries
from bot.db.conversations.retries import LastTurn
from bot.db.people.people import RoleOrBlocked
from bot.db.queues import inbox, stop_requests
from bot.domain import Button, Part
from bot.telegram.actions import (
    Action,
    ActionContext,
    ActionResult,
    ReadOnlyAction,
    build_pages,
    build_part,
    do_nothing,
    reply_text,
)
from bot.telegram.best_effort_calls import CommandMenu
from bot.telegram.commands import (
    approvals,
    consent,
    forget,
    grants,
    jobs,
    limits,
    onboarding,
    people,
    prompt_context,
    secret_guard,
    sign_in,
    think,
    tools,
    usage,
)

RETRY_ANYWAY = "Try again anyway"
_COMMAND_PATTERN = re.compile(r"/(\w+)(?:@\w+)?\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    """One command; `needs_fallback`: it is about the second endpoint, and hidden where there is none."""

    name: str
    help: str
    action: Action
    min_role: Literal["anyone", "member", "admin"] = "member"
    in_menu: bool = True
    needs_fallback: bool = False


def find_command(name: str) -> Command | None:
    """Return the command of this name, without its slash."""
    return next((command for command in COMMANDS if command.name == name), None)


def choose_command_action(text: str, role: RoleOrBlocked | None) -> tuple[Action, str]:
    """Return what a message that begins with a slash does, and the arguments after the command."""
    name, args = parse_command(text)
    command = find_command(name)
    if role in {"admin", "member"} and sign_in.is_answer(text):
        return sign_in.take_answer, text
    if name == "tools" and role in {"admin", "member"} and secret_guard.has_secret(args):
        return secret_guard.delete_secret_message, args
    if command is not None and can_use(command, role):
        return command.action, args
    if role is None:
        return onboarding.reject_stranger, ""
    if command is None:
        return reply_unknown, name
    return reply_admins_only, name


def choose_edit_action(text: str, role: RoleOrBlocked | None) -> tuple[Action, str]:
    """Return what is done about an edited message: nothing, unless it is /tools with a secret now."""
    name, args = parse_command(text)
    if name == "tools" and role and secret_guard.has_secret(args):
        return choose_command_action(text, role)
    return do_nothing, ""


def parse_command(text: str) -> tuple[str, str]:
    """Split a message that begins with a slash into the command's name and its arguments."""
    match = _COMMAND_PATTERN.match(text)
    if match is None:
        return "", ""
    return match[1].lower(), match[2].strip()


def can_use(command: Command, role: RoleOrBlocked | None) -> bool:
    """Whether somebody of this role may use the command."""
    if command.min_role == "anyone" or role == "admin":
        return True
    return command.min_role == "member" and role == "member"


def build_menu(role: RoleOrBlocked, *, has_fallback: bool = False) -> CommandMenu:
    """Return what Telegram shows beside the text field, as (name, line of help)."""
    commands = list_commands(role, has_fallback=has_fallback)
    return [(command.name, command.help) for command in commands if command.in_menu]


def list_commands(role: RoleOrBlocked | None, *, has_fallback: bool) -> list[Command]:
    """Return the commands of somebody of this role, with or without those about the second endpoint."""
    usable = [command for command in COMMANDS if can_use(command, role)]
    return [command for command in usable if has_fallback or not command.needs_fallback]


async def reply_unknown(context: ActionContext) -> ActionResult:
    return reply_text(f"I do not know /{context.args[:32]}. /help shows what I know.")


async def reply_admins_only(context: ActionContext) -> ActionResult:
    return reply_text(f"/{context.args} is for admins.")


async def handle_start(context: ActionContext) -> ActionResult:
    if context.args:
        return await onboarding.join_by_link(context)
    if context.role is None:
        return await onboarding.reject_stranger(context)
    return onboarding.build_welcome(context, context.role)


async def handle_help(context: ActionContext) -> ActionResult:
    commands = list_commands(context.role, has_fallback=context.deps.fallback_endpoint is not None)
    lines = [f"/{command.name} – {command.help}" for command in commands]
    return reply_text("\n".join(["Write to me as you would to a person. My commands:", *lines]))


async def handle_new(context: ActionContext) -> ActionResult:
    await conversations.start_new(context.tx, context.lane)
    return reply_text("A new conversation: I do not see any more what was said before. Your notes stay.")


async def handle_stop(context: ActionContext) -> ActionResult:
    stopped = await stop_requests.stop(
        context.tx, context.lane, before=context.item.id, now=context.now, include_parked=True
    )
    if stopped.parked:
        lanes = await context.deps.approvals.stop_turns(context.tx, stopped.parked, now=context.now)
        wakes = (partial(context.deps.wake_sender, lane) for lane in lanes)
        return ActionResult(after_commit=(context.deps.wake_worker, *wakes))
    if stopped.running:
        stop_turn = partial(context.deps.turns.stop, context.lane, context.item.id)
        return ActionResult(parts=_offer_to_drop(context, stopped.waiting), after_commit=(stop_turn,))
    if stopped.dropped:
        return reply_text(f"Dropped {_format_message_count(stopped.dropped)}.")
    return reply_text("Nothing is running.")


def _offer_to_drop(context: ActionContext, waiting: int) -> tuple[Part, ...]:
    """Offer to drop the messages that wait, if there are any."""
    data = f"drop:{context.item.id}"
    match waiting:
        case 0:
            return ()
        case 1:
            return (build_part("One message of yours is answered next.", (Button("Drop it", data),)),)
    text = f"{waiting} messages of yours are answered next."
    return (build_part(text, (Button("Drop them", data),)),)


def _format_message_count(count: int) -> str:
    if count == 1:
        return "one message"
    return f"{count} messages"


async def handle_retry(context: ActionContext) -> ActionResult:
    last = await retries.find_last_turn(context.tx, context.lane, before_item=context.item.id)
    if last is None:
        return reply_text("There is nothing in this conversation to try again.")
    not_repeatable = [tool for tool in last.ran_tools if not context.deps.is_repeatable(tool)]
    if not_repeatable:
        tool_names = ", ".join(not_repeatable)
        question = f"The last turn used {tool_names}, and trying again may do the same a second time."
        return reply_text(question, (Button(RETRY_ANYWAY, f"retry:{last.id}"),))
    return await repeat_turn(context, last)


async def repeat_turn(context: ActionContext, last_turn: LastTurn) -> ActionResult:
    """Replace the last turn by a new one with the same messages."""
    await retries.mark_replaced(context.tx, last_turn.id)
    return await queue_task(context, last_turn.texts, of_turn=last_turn.id, deep=last_turn.deep)


async def queue_task(
    context: ActionContext,
    texts: tuple[str, ...],
    of_turn: int | None = None,
    *,
    deep: bool = False,
    continues: bool = False,
) -> ActionResult:
    """Have these messages answered as if the person had sent them.

    `of_turn`: the turn whose messages they are, if any's.
    `deep`: by the second endpoint.
    `continues`: the last answer is to be continued.
    """
    body: dict[str, Any] = {"person": context.person, "name": context.name, "texts": texts}
    if of_turn is not None:
        body["turn"] = of_turn
    if deep:
        body["deep"] = True
    if continues:
        body["goes_on"] = True
    await inbox.add(
        context.tx, kind="task", lane=context.lane, sender=context.person, body=body, now=context.now
    )
    return ActionResult(after_commit=(context.deps.wake_worker,))


async def handle_notes(context: ActionContext) -> ActionResult:
    return ActionResult(parts=await build_notes_pages(context))


async def build_notes_pages(context: ActionContext) -> tuple[Part, ...]:
    """List the notes of the chat, each with a button to delete it."""
    stored_notes = await notes.list_stored(context.tx, context.lane)
    if not stored_notes:
        return (Part("No notes yet. Ask me to remember something."),)
    entries = [_build_note_entry(row) for row in stored_notes]
    return build_pages("Notes of this chat:", entries, buttons_per_row=4)


def _build_note_entry(row: notes.StoredNote) -> tuple[str, tuple[Button, ...]]:
    note = row.note
    line = f"{note.number}. {note.text} ({note.author}, {note.made.isoformat()})"
    return line, (Button(f"Delete {note.number}", f"note:{row.id}"),)


async def handle_id(context: ActionContext) -> ActionResult:
    return reply_text(f"Your number is {context.person}.", code=str(context.person))


COMMANDS = (
    Command("new", "start a new conversation", handle_new),
    Command("stop", "stop what I am doing", handle_stop),
    Command("retry", "answer the last message again", handle_retry),
    Command("deep", "have the second model answer what follows", consent.handle_deep, needs_fallback=True),
    Command(
        "consent",
        "what may go to the second model",
        consent.handle_consent,
        in_menu=False,
        needs_fallback=True,
    ),
    Command("notes", "what I keep for this chat", handle_notes),
    Command("remind", "have me say something later", jobs.handle_remind, in_menu=False),
    Command("jobs", "what I am to say or do later", jobs.handle_jobs, in_menu=False),
    Command("zone", "your time zone", jobs.handle_zone, in_menu=False),
    Command("think", "when I think before I answer", think.handle_think),
    Command("usage", "what the last turn, today and 30 days took", ReadOnlyAction(usage.handle_usage)),
    Command("context", "what my next prompt is made of", prompt_context.handle_context, in_menu=False),
    Command("limits", "how much I may do for you a day", limits.handle_limits, in_menu=False),
    Command(
        "approvals",
        "what I may do without asking, and what waits for an answer",
        approvals.handle_approvals,
        in_menu=False,
    ),
    Command("forget", "delete what I keep of this chat", forget.handle_forget, in_menu=False),
    Command("help", "what I can do", handle_help),
    Command("start", "the greeting, with examples", handle_start, min_role="anyone", in_menu=False),
    Command("id", "your number in Telegram", handle_id, min_role="anyone", in_menu=False),
    Command("invite", "a link that lets one person in", people.handle_invite, min_role="admin"),
    Command("people", "who is in, and who waits", people.handle_people, min_role="admin"),
    Command("tools", "what I can do, and what admins add to it", tools.handle_tools, min_role="admin"),
    Command("grant", "let somebody use a tool", grants.handle_grant, min_role="admin", in_menu=False),
    Command("revoke", "take that back", grants.handle_revoke, min_role="admin", in_menu=False),
)
