"""The one list of commands: name, line of help, who may use it, whether menus show it, and what it does.

/help and the menus are made of it, and handlers find commands in it.
"""

import re
from dataclasses import dataclass
from functools import partial
from typing import Literal

from bot.db.conversations import conversations, notes, retries
from bot.db.conversations.retries import LastTurn
from bot.db.people.people import Standing
from bot.db.queues import inbox
from bot.db.queues import stop_requests as stopping
from bot.domain import Button, Part
from bot.telegram.actions import Act, Answer, Call, nothing, pages, part, say
from bot.telegram.best_effort_calls import Menu
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

ASK_AGAIN = "Try again anyway"
_WRITTEN = re.compile(r"/(\w+)(?:@\w+)?\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    """One command; `who` is the least standing that may use it. `second`: it is about the second endpoint, if
    any.
    """

    name: str
    help: str
    act: Act
    who: Literal["anyone", "member", "admin"] = "member"
    in_menu: bool = True
    second: bool = False


def find(name: str) -> Command | None:
    """The command of this name, without its slash."""
    return next((one for one in COMMANDS if one.name == name), None)


def choose(text: str, standing: Standing | None) -> tuple[Act, str]:
    """What a message that begins with a slash does, and the words after the command."""
    name, words = parse(text)
    command = find(name)
    if name == "tools" and standing in {"admin", "member"} and unsaid.is_secret(words):
        return unsaid.unsay, words
    if command is not None and allowed(command, standing):
        return command.act, words
    if standing is None:
        return door.knocked, ""
    if command is None:
        return (unknown, name)
    return (for_admins, name)


def edited(text: str, standing: Standing | None) -> tuple[Act, str]:
    """What is done about a message that was changed to this: nothing, unless it is /tools with a secret now."""
    name, words = parse(text)
    if name == "tools" and standing and unsaid.is_secret(words):
        return choose(text, standing)
    return (nothing, "")


def parse(text: str) -> tuple[str, str]:
    """A message that begins with a slash as the command's name and the words after it."""
    found = _WRITTEN.match(text)
    if found:
        return (found[1].lower(), found[2].strip())
    return ("", "")


def allowed(command: Command, standing: Standing | None) -> bool:
    """Whether somebody of this standing may use the command."""
    return (
        command.who == "anyone" or standing == "admin" or (command.who == "member" and standing == "member")
    )


def menu(standing: Standing, *, second: bool = False) -> Menu:
    """What Telegram shows beside the text field, as (name, line of help); `second`: there is a second
    endpoint.
    """
    return [(one.name, one.help) for one in offered(standing, second=second) if one.in_menu]


def offered(standing: Standing | None, *, second: bool) -> list[Command]:
    """The commands of somebody of this standing, in a house with a second endpoint or without."""
    return [one for one in COMMANDS if allowed(one, standing) and (second or not one.second)]


async def unknown(call: Call) -> Answer:
    return say(f"I do not know /{call.words[:32]}. /help shows what I know.")


async def for_admins(call: Call) -> Answer:
    return say(f"/{call.words} is for admins.")


async def start(call: Call) -> Answer:
    if call.words:
        return await door.by_link(call)
    if call.standing is None:
        return await door.knocked(call)
    return door.welcome(call, call.standing)


async def show_help(call: Call) -> Answer:
    mine = offered(call.standing, second=call.reach.second is not None)
    lines = [f"/{one.name} – {one.help}" for one in mine]
    return say("\n".join(["Write to me as you would to a person. My commands:", *lines]))


async def new(call: Call) -> Answer:
    await conversations.new(call.tx, call.lane)
    return say("A new conversation: I do not see any more what was said before. Your notes stay.")


async def stop(call: Call) -> Answer:
    stopped = await stopping.stop(call.tx, call.lane, before=call.item.id, now=call.now, parked=True)
    if stopped.parked:
        lanes = await call.reach.approvals.stop(call.tx, stopped.parked, now=call.now)
        return Answer(
            then=(call.reach.wake_worker, *(partial(call.reach.wake_sender, lane) for lane in lanes))
        )
    if not stopped.running:
        if stopped.dropped:
            dropped = f"Dropped {_messages(stopped.dropped)}."
        else:
            dropped = "Nothing is running."
        return say(dropped)
    cut = partial(call.reach.turns.stop, call.lane, call.item.id)
    if not stopped.waiting:
        return Answer(then=(cut,))
    one = stopped.waiting == 1
    line = f"{_messages(stopped.waiting).capitalize()} of yours {'is' if one else 'are'} answered next."
    drop = Button("Drop it" if one else "Drop them", f"drop:{call.item.id}")
    return Answer(parts=(part(line, (drop,)),), then=(cut,))


async def retry(call: Call) -> Answer:
    last = await retries.last(call.tx, call.lane, before_item=call.item.id)
    if last is None:
        return say("There is nothing in this conversation to try again.")
    ran = [tool for tool in last.ran if not call.reach.repeatable(tool)]
    if ran:
        question = f"The last turn used {', '.join(ran)}, and trying again may do the same a second time."
        return say(question, (Button(ASK_AGAIN, f"retry:{last.id}"),))
    return await again(call, last)


async def again(call: Call, last: LastTurn) -> Answer:
    """Put a new turn with the same messages in the place of the last one."""
    await retries.replace(call.tx, last.id)
    return await ask(call, last.texts, of=last.id, deep=last.deep)


async def ask(
    call: Call, texts: tuple[str, ...], of: int | None = None, *, deep: bool = False, goes_on: bool = False
) -> Answer:
    """Have these messages answered as if the person had sent them; `of` is the turn whose they are, if any's.

    `deep`: by the second endpoint; `goes_on`: the last answer is to go on.
    """
    body = {"person": call.person, "name": call.name, "texts": texts} | (
        {"turn": of} if of is not None else {}
    )
    body |= {"deep": True} if deep else {}
    body |= {"goes_on": True} if goes_on else {}
    await inbox.add(call.tx, kind="task", lane=call.lane, sender=call.person, body=body, now=call.now)
    return Answer(then=(call.reach.wake_worker,))


async def show_notes(call: Call) -> Answer:
    return Answer(parts=await notes_pages(call))


async def notes_pages(call: Call) -> tuple[Part, ...]:
    """The notes of the chat as messages, each note with its button."""
    found = await notes.stored(call.tx, call.lane)
    if not found:
        return (Part("No notes yet. Ask me to remember something."),)
    entries = [
        (
            f"{one.note.number}. {one.note.text} ({one.note.author}, {one.note.made.isoformat()})",
            (Button(f"Delete {one.note.number}", f"note:{one.id}"),),
        )
        for one in found
    ]
    return pages("Notes of this chat:", entries, in_a_row=4)


async def show_id(call: Call) -> Answer:
    return say(f"Your number is {call.person}.", code=str(call.person))


def _messages(count: int) -> str:
    if count == 1:
        return "one message"
    return f"{count} messages"


COMMANDS = (
    Command("new", "start a new conversation", new),
    Command("stop", "stop what I am doing", stop),
    Command("retry", "answer the last message again", retry),
    Command("deep", "have the second model answer what follows", consent.deep, second=True),
    Command("consent", "what may go to the second model", consent.show, in_menu=False, second=True),
    Command("notes", "what I keep for this chat", show_notes),
    Command("remind", "have me say something later", jobs.remind, in_menu=False),
    Command("jobs", "what I am to say or do later", jobs.show, in_menu=False),
    Command("zone", "your time zone", jobs.zone, in_menu=False),
    Command("think", "when I think before I answer", thinking.think),
    Command("usage", "what the last turn, today and 30 days took", accounts.show),
    Command("context", "what my next prompt is made of", context.show, in_menu=False),
    Command("limits", "how much I may do for you a day", limits.show, in_menu=False),
    Command(
        "approvals",
        "what I may do without asking, and what waits for an answer",
        approving.show,
        in_menu=False,
    ),
    Command("forget", "delete what I keep of this chat", forget.ask, in_menu=False),
    Command("help", "what I can do", show_help),
    Command("start", "the greeting, with examples", start, who="anyone", in_menu=False),
    Command("id", "your number in Telegram", show_id, who="anyone", in_menu=False),
    Command("invite", "a link that lets one person in", members.invite, who="admin"),
    Command("people", "who is in, and who waits", members.show, who="admin"),
    Command("tools", "what I can do, and what admins add to it", tooling.show, who="admin"),
    Command("grant", "let somebody use a tool", granting.grant, who="admin", in_menu=False),
    Command("revoke", "take that back", granting.revoke, who="admin", in_menu=False),
)
