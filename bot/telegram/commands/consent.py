"""/deep, which has one message answered by the second endpoint, and what a chat lets go to it: the question,
its buttons, and /consent.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from bot.db.conversations import chat_settings as chats
from bot.db.conversations import turns
from bot.db.conversations.chat_settings import KINDS, Consent, Kind
from bot.db.engine import Transaction
from bot.db.queues import inbox, outbox
from bot.domain import Button, InboxItem, Part
from bot.telegram.actions import TOO_OLD, Answer, Call, say
from bot.turns.endpoints import Endpoint, button, may_go, question, seal

NO_SECOND = "No second model is set up here."
HOW_TO = "Write your message behind it, as in: /deep compare these two contracts"
DEEP = "For /deep"

_ANSWERS: dict[str, frozenset[Kind]] = {
    "text": frozenset({"text"}),
    "all": frozenset(KINDS),
    "no": frozenset(),
}
_NUMBER = re.compile(r"[0-9]{1,18}")


async def answered_deep(
    tx: Transaction, item: InboxItem, second: Endpoint | None, chat: int, words: str
) -> bool:
    """Whether a /deep with these words is answered now: it has begun a turn, or nothing stands against one."""
    if await turns.begun(tx, item.id):
        return True
    return second is not None and bool(words) and may_go(second, await chats.consent(tx, chat, second.host))


async def deep(call: Call) -> Answer:
    """A /deep that cannot be answered yet: says why, or asks the chat."""
    second = call.reach.second
    if second is None:
        return say(NO_SECOND)
    if not call.words:
        return say(HOW_TO)
    if (await _consent(call, second)).kinds == frozenset():
        return say(
            f"This chat said no to {second.host}, so I did not send this there. /consent changes that."
        )
    await chats.ask_consent(call.tx, call.lane.chat, second.host)
    # Not as the answer of its item: that place belongs to the turn, once the chat has agreed.
    asked = question(second, DEEP, item=call.item.id)
    await outbox.add(call.tx, item=None, lane=call.lane, parts=(asked,), now=call.now)
    return Answer(then=(partial(call.reach.wake_sender, call.lane),))


async def show(call: Call) -> Answer:
    """/consent: what may go to the second endpoint, with buttons to change it."""
    second = call.reach.second
    if second is None:
        return say(NO_SECOND)
    if not second.is_outside:
        return say(f"The second model is at {second.host}, on our own network; nothing leaves it.")
    return Answer(parts=(_page(second, await _consent(call, second)),))


async def tapped(call: Call) -> Answer:
    """A button of the question or of /consent; `call.words` is an answer or a kind, an item, and for which
    host.
    """
    second = call.reach.second
    (wish, item, sealed, *_) = [*call.words.split(":"), "", ""]
    if second is None or sealed != seal(second.host) or not _NUMBER.fullmatch(item):
        return TOO_OLD
    if wish in _ANSWERS:
        return await _answer(call, second, _ANSWERS[wish], int(item))
    kinds = (await _consent(call, second)).kinds or frozenset[Kind]()
    if wish not in KINDS or not kinds:
        return TOO_OLD
    await chats.give_consent(call.tx, call.lane.chat, second.host, kinds ^ {wish})
    return Answer(toast="Changed.", redraw=_page(second, await _consent(call, second)))


async def _answer(call: Call, second: Endpoint, kinds: frozenset[Kind], item: int) -> Answer:
    """The chat has said what may go there: what waited for that goes on, the /deep `item` (0: none) included."""
    await chats.give_consent(call.tx, call.lane.chat, second.host, kinds)
    if kinds and item:
        await inbox.put_back(call.tx, item, call.lane, now=call.now)
    if item and not kinds:
        unanswered = " Send it without /deep, and I answer it here."
    else:
        unanswered = ""
    redraw = Part(f"{_told(second, kinds)} /consent changes that.{unanswered}")
    then = (call.reach.wake_worker, partial(call.reach.turns.go_on, call.lane))
    return Answer(toast="Agreed." if kinds else "Nothing goes there.", redraw=redraw, then=then)


async def _consent(call: Call, second: Endpoint) -> Consent:
    return await chats.consent(call.tx, call.lane.chat, second.host)


def _page(second: Endpoint, consent: Consent) -> Part:
    """What /consent shows."""
    if not consent.given:
        return replace(question(second, "If the second model answers"), text=_told(second, frozenset()))
    kinds = consent.kinds or frozenset[Kind]()
    toggles = tuple(
        Button(f"{'Keep back' if kind in kinds else 'Also send'} {kind}", button(kind, second))
        for kind in KINDS
        if kind != "text"
    )
    withdraw = (Button("Send nothing there", button("no", second)),)
    return Part(_told(second, kinds), buttons=(toggles, withdraw))


def _told(second: Endpoint, kinds: frozenset[Kind]) -> str:
    if not kinds:
        return f"Nothing of this chat goes to {second.host}."
    kept_back = [kind for kind in KINDS if kind not in kinds]
    stays = f"; {_listed(kept_back)} stay here" if kept_back else ""
    return f"The {_listed([kind for kind in KINDS if kind in kinds])} of this chat may go to {second.host}{stays}."


def _listed(kinds: Sequence[Kind]) -> str:
    *first, last = kinds
    if first:
        return f"{', '.join(first)} and {last}"
    return last
