"""What the buttons do. A tap may come late, twice, or from somebody who was never shown the button: each act
finds out for itself whether what it is about still stands, and belongs to the chat it came from.
"""

import re
from collections.abc import Awaitable, Callable
from functools import partial

from bot.db.conversations import notes, retries
from bot.db.people.people import Standing
from bot.db.queues import inbox, outbox
from bot.db.queues import stop_requests as stopping
from bot.domain import Part
from bot.telegram.actions import TOO_OLD, Act, Answer, Call
from bot.telegram.commands import approvals as approving
from bot.telegram.commands import consent, forget, jobs
from bot.telegram.commands import people as members
from bot.telegram.commands import registry as commands
from bot.telegram.commands import think as thinking
from bot.telegram.commands import tool_cards as toolcards
from bot.telegram.commands import usage as accounts
from bot.telegram.commands.greeting import EXAMPLES

GO_ON = "Please go on exactly where you stopped."
"""What the model is told when the person wants more of an answer that was cut at its length."""


def choose(data: str, standing: Standing | None) -> tuple[Act, str]:
    """What a button with this data does for somebody of this standing, and the words it carries."""
    name, _, words = data.partition(":")
    act = _TAPS.get(name)
    if standing is None or act is None or (name in _FOR_ADMINS and standing != "admin"):
        return _nothing, ""
    return act, words


async def _nothing(call: Call) -> Answer:
    if call.standing:
        return TOO_OLD
    return Answer(toast="You have no access to this bot.")


async def _stop(call: Call, item: int) -> Answer:
    runs = await stopping.stop_turn(call.tx, call.lane, item)
    if runs is None:
        return Answer(toast="This has ended already.")
    # A due task may have given way: then what runs in its lane is another turn.
    cut = partial(call.reach.turns.stop, call.lane, call.item.id)
    return Answer(toast="Stopped.", then=(cut,) if runs else ())


async def _drop(call: Call, item: int) -> Answer:
    """Drop what waited when the /stop `item` came: it may have become the running turn since."""
    stopped = await stopping.stop(call.tx, call.lane, before=item, now=call.now)
    dropped = stopped.dropped
    if stopped.running:
        dropped += await stopping.drop(call.tx, call.lane, upto=item, now=call.now)
    if dropped or stopped.running:
        line = "Dropped."
    else:
        line = "Nothing waits any more."
    return Answer(toast=line, redraw=Part(line), then=(partial(call.reach.turns.stop, call.lane, item),))


async def _retry(call: Call, turn: int) -> Answer:
    last = await retries.last(call.tx, call.lane, before_item=call.item.id)
    if last is None or last.id != turn:
        return Answer(toast="This is not the last answer any more.", redraw=Part("Not tried again."))
    asked = await commands.again(call, last)
    return Answer(toast="Trying again.", redraw=Part("Trying again."), then=asked.then)


async def _note(call: Call, note: int) -> Answer:
    number = await notes.delete(call.tx, call.lane, note)
    shown = await commands.notes_pages(call)
    if number is None:
        toast = "This note is gone already."
    else:
        toast = f"Note {number} is deleted."
    return Answer(toast=toast, redraw=shown[0] if len(shown) == 1 else None)


async def _ask(call: Call, number: int) -> Answer:
    if number >= len(EXAMPLES):
        return TOO_OLD
    asked = await commands.ask(call, (EXAMPLES[number],))
    return Answer(parts=(Part(f"You ask: {EXAMPLES[number]}", silent=True),), then=asked.then)


async def _more(call: Call, turn: int) -> Answer:
    """Go on with an answer that was cut at its length, if nothing has come or been asked since."""
    message = call.item.body["callback_query"].get("message")
    strip: tuple[Callable[[], Awaitable[None]], ...] = ()
    if message:
        strip = (partial(call.reach.gestures.strip, call.lane, message["message_id"]),)
    last = await retries.last(call.tx, call.lane, before_item=call.item.id)
    if last is None or last.id != turn:
        return Answer(toast="This is not the last answer any more.", gestures=strip)
    if await inbox.busy(call.tx, call.lane):
        return Answer(toast="Something newer is under way already.", gestures=strip)
    asked = await commands.ask(call, (GO_ON,), deep=last.deep, goes_on=True)
    return Answer(toast="I go on.", then=asked.then, gestures=strip)


async def _again(call: Call, row: int) -> Answer:
    if not await outbox.send_again(call.tx, row, lane=call.lane, now=call.now):
        return Answer(toast="It has been sent again already.")
    return Answer(toast="It comes again.", then=(partial(call.reach.wake_sender, call.lane),))


def _numbered(act: Callable[[Call, int], Awaitable[Answer]]) -> Act:
    """An act of a button that carries one number."""

    async def acting(call: Call) -> Answer:
        if _NUMBER.fullmatch(call.words):
            return await act(call, int(call.words))
        return TOO_OLD

    return acting


_NUMBER = re.compile(r"[0-9]{1,18}")
_FOR_ADMINS = {"people", "tools"}
_TAPS: dict[str, Act] = {
    "stop": _numbered(_stop),
    "allow": approving.tapped,
    "revoke": approving.revoked,
    "again": _numbered(_again),
    "drop": _numbered(_drop),
    "retry": _numbered(_retry),
    "note": _numbered(_note),
    "ask": _numbered(_ask),
    "people": members.tapped,
    "tools": toolcards.tapped,
    "consent": consent.tapped,
    "more": _numbered(_more),
    "think": thinking.tapped,
    "forget": forget.tapped,
    "job": jobs.tapped,
    "usage": accounts.back,
    "details": _numbered(accounts.detail),
    "picture": accounts.picture,
}
