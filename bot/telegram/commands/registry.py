"""The one list of commands: name, line of help, who may use it, whether menus show it, and what it does.

/help and the menus are made of it, and handlers find commands in it.
"""

import re
from dataclasses import dataclass
from functools import partial
from typing import Literal

from bot.db.conversations import conversations, notes, retries
from bot.db.conversations.retries import LastTurn
from bot.db.people.people import RoleOrBlocked
from bot.db.queues import inbox
from bot.db.queues import stop_requests as stopping
from bot.domain import Button, Part
from bot.telegram.actions import (
    Action,
    ActionContext,
    ActionResult,
    build_pages,
    build_part,
    do_nothing,
    reply_text,
)
from bot.telegram.best_effort_calls import CommandMenu
from bot.telegram.commands import approvals as approving
from bot.telegram.commands import consent, forget, jobs, limits
from bot.telegram.commands import grants as granting
from bot.telegram.commands import onboarding as door
from bot.telegram.commands import people as members
from bot.telegram.commands import prompt_context as context
from bot.telegram.commands import secret_guard as unsaid
from bot.telegram.commands import think as thinking
from bot.telegram.commands import tools as tooling
from bot.telegram.commands import usage as accounts

RETRY_ANYWAY = "Try again anyway"
_COMMAND_PATTERN = re.compile(r"/(\w+)(?:@\w+)?\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    """One command; `who` is the least standing that may use it. `second`: it is about the second endpoint, if
    any.
    """

    name: str
    help: str
    action: Action
    min_role: Literal["anyone", "member", "admin"] = "member"
    in_menu: bool = True
    needs_fallback: bool = False


def find_command(name: str) -> Command | None:
    """The command of this name, without its slash."""
    return next((one for one in COMMANDS if one.name == name), None)


def choose_command_action(text: str, role: RoleOrBlocked | None) -> tuple[Action, str]:
    """What a message that begins with a slash does, and the words after the command."""
    name, words = parse_command(text)
    command = find_command(name)
    if name == "tools" and role in {"admin", "member"} and unsaid.has_secret(words):
        return unsaid.delete_secret_message, words
    if command is not None and can_use(command, role):
        return command.action, words
    if role is None:
        return door.reject_stranger, ""
    if command is None:
        return (reply_unknown, name)
    return (reply_admins_only, name)


def choose_edit_action(text: str, role: RoleOrBlocked | None) -> tuple[Action, str]:
    """What is done about a message that was changed to this: nothing, unless it is /tools with a secret now."""
    name, words = parse_command(text)
    if name == "tools" and role and unsaid.has_secret(words):
        return choose_command_action(text, role)
    return (do_nothing, "")


def parse_command(text: str) -> tuple[str, str]:
    """A message that begins with a slash as the command's name and the words after it."""
    found = _COMMAND_PATTERN.match(text)
    if found:
        return (found[1].lower(), found[2].strip())
    return ("", "")


def can_use(command: Command, role: RoleOrBlocked | None) -> bool:
    """Whether somebody of this standing may use the command."""
    return (
        command.min_role == "anyone" or role == "admin" or (command.min_role == "member" and role == "member")
    )


def build_menu(role: RoleOrBlocked, *, has_fallback: bool = False) -> CommandMenu:
    """What Telegram shows beside the text field, as (name, line of help); `second`: there is a second
    endpoint.
    """
    return [(one.name, one.help) for one in list_commands(role, has_fallback=has_fallback) if one.in_menu]


def list_commands(role: RoleOrBlocked | None, *, has_fallback: bool) -> list[Command]:
    """The commands of somebody of this standing, in a house with a second endpoint or without."""
    return [one for one in COMMANDS if can_use(one, role) and (has_fallback or not one.needs_fallback)]


async def reply_unknown(context: ActionContext) -> ActionResult:
    return reply_text(f"I do not know /{context.args[:32]}. /help shows what I know.")


async def reply_admins_only(context: ActionContext) -> ActionResult:
    return reply_text(f"/{context.args} is for admins.")


async def handle_start(context: ActionContext) -> ActionResult:
    if context.args:
        return await door.join_by_link(context)
    if context.role is None:
        return await door.reject_stranger(context)
    return door.build_welcome(context, context.role)


async def handle_help(context: ActionContext) -> ActionResult:
    mine = list_commands(context.role, has_fallback=context.deps.fallback_endpoint is not None)
    lines = [f"/{one.name} – {one.help}" for one in mine]
    return reply_text("\n".join(["Write to me as you would to a person. My commands:", *lines]))


async def handle_new(context: ActionContext) -> ActionResult:
    await conversations.start_new(context.tx, context.lane)
    return reply_text("A new conversation: I do not see any more what was said before. Your notes stay.")


async def handle_stop(context: ActionContext) -> ActionResult:
    stopped = await stopping.stop(
        context.tx, context.lane, before=context.item.id, now=context.now, include_parked=True
    )
    if stopped.parked:
        lanes = await context.deps.approvals.stop_turns(context.tx, stopped.parked, now=context.now)
        return ActionResult(
            after_commit=(
                context.deps.wake_worker,
                *(partial(context.deps.wake_sender, lane) for lane in lanes),
            )
        )
    if not stopped.running:
        if stopped.dropped:
            dropped = f"Dropped {_format_messages(stopped.dropped)}."
        else:
            dropped = "Nothing is running."
        return reply_text(dropped)
    cut = partial(context.deps.turns.stop, context.lane, context.item.id)
    if not stopped.waiting:
        return ActionResult(after_commit=(cut,))
    one = stopped.waiting == 1
    line = (
        f"{_format_messages(stopped.waiting).capitalize()} of yours {'is' if one else 'are'} answered next."
    )
    drop = Button("Drop it" if one else "Drop them", f"drop:{context.item.id}")
    return ActionResult(parts=(build_part(line, (drop,)),), after_commit=(cut,))


async def handle_retry(context: ActionContext) -> ActionResult:
    last = await retries.find_last_turn(context.tx, context.lane, before_item=context.item.id)
    if last is None:
        return reply_text("There is nothing in this conversation to try again.")
    ran = [tool for tool in last.ran_tools if not context.deps.is_repeatable(tool)]
    if ran:
        question = f"The last turn used {', '.join(ran)}, and trying again may do the same a second time."
        return reply_text(question, (Button(RETRY_ANYWAY, f"retry:{last.id}"),))
    return await repeat_turn(context, last)


async def repeat_turn(context: ActionContext, last_turn: LastTurn) -> ActionResult:
    """Put a new turn with the same messages in the place of the last one."""
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
    """Have these messages answered as if the person had sent them; `of` is the turn whose they are, if any's.

    `deep`: by the second endpoint; `goes_on`: the last answer is to go on.
    """
    body = {"person": context.person, "name": context.name, "texts": texts} | (
        {"turn": of_turn} if of_turn is not None else {}
    )
    body |= {"deep": True} if deep else {}
    body |= {"goes_on": True} if continues else {}
    await inbox.add(
        context.tx, kind="task", lane=context.lane, sender=context.person, body=body, now=context.now
    )
    return ActionResult(after_commit=(context.deps.wake_worker,))


async def handle_notes(context: ActionContext) -> ActionResult:
    return ActionResult(parts=await build_notes_pages(context))


async def build_notes_pages(context: ActionContext) -> tuple[Part, ...]:
    """The notes of the chat as messages, each note with its button."""
    found = await notes.list_stored(context.tx, context.lane)
    if not found:
        return (Part("No notes yet. Ask me to remember something."),)
    entries = [
        (
            f"{one.note.number}. {one.note.text} ({one.note.author}, {one.note.made.isoformat()})",
            (Button(f"Delete {one.note.number}", f"note:{one.id}"),),
        )
        for one in found
    ]
    return build_pages("Notes of this chat:", entries, buttons_per_row=4)


async def handle_id(context: ActionContext) -> ActionResult:
    return reply_text(f"Your number is {context.person}.", code=str(context.person))


def _format_messages(count: int) -> str:
    if count == 1:
        return "one message"
    return f"{count} messages"


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
    Command("think", "when I think before I answer", thinking.handle_think),
    Command("usage", "what the last turn, today and 30 days took", accounts.handle_usage),
    Command("context", "what my next prompt is made of", context.handle_context, in_menu=False),
    Command("limits", "how much I may do for you a day", limits.handle_limits, in_menu=False),
    Command(
        "approvals",
        "what I may do without asking, and what waits for an answer",
        approving.handle_approvals,
        in_menu=False,
    ),
    Command("forget", "delete what I keep of this chat", forget.handle_forget, in_menu=False),
    Command("help", "what I can do", handle_help),
    Command("start", "the greeting, with examples", handle_start, min_role="anyone", in_menu=False),
    Command("id", "your number in Telegram", handle_id, min_role="anyone", in_menu=False),
    Command("invite", "a link that lets one person in", members.handle_invite, min_role="admin"),
    Command("people", "who is in, and who waits", members.handle_people, min_role="admin"),
    Command("tools", "what I can do, and what admins add to it", tooling.handle_tools, min_role="admin"),
    Command("grant", "let somebody use a tool", granting.handle_grant, min_role="admin", in_menu=False),
    Command("revoke", "take that back", granting.handle_revoke, min_role="admin", in_menu=False),
)
