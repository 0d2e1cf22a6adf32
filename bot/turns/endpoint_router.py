"""Where the model calls of one turn go: the endpoint it is at, what of its prompt may go there, and whether
it goes on at the other one. Asks the chat when that needs its consent.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from bot.db.conversations import chat_settings as chats
from bot.db.conversations import turns as stored
from bot.db.conversations.chat_settings import KINDS, Kind
from bot.db.engine import Database, Transaction
from bot.db.queues import outbox
from bot.db.retry import patiently
from bot.domain import Lane, Message, ModelRequest, Which
from bot.turns.endpoints import Endpoint, choose, question, withhold
from bot.turns.model_caller import Asking, Elsewhere, Seek, unseen

HARD = "For hard questions"
DOWN = "My model does not answer. If the second one goes on"
LONGEST_NAME = 80

_ODD = re.compile(r"[^\w./:@+ -]")


@dataclass(frozen=True, slots=True)
class Place:
    """An endpoint, and the way to ask it; `continues`: it goes on in the middle of an answer if it is asked
    to.
    """

    endpoint: Endpoint
    asking: Asking
    continues: bool


@dataclass(frozen=True, slots=True)
class Places:
    """Both endpoints, or the first alone. `wake` says that something is stored for a lane; `for_hard`: the
    second one is wanted for turns that think.
    """

    database: Database
    first: Place
    second: Place | None
    wake: Callable[[Lane], None]
    for_hard: bool = False


class Way:
    """Of one turn; `which` is where it is."""

    def __init__(self, places: Places, lane: Lane) -> None:
        self.which: Which = "main"
        self._places = places
        self._lane = lane
        self._leads: Which | None = None
        self._allowed = frozenset(KINDS)
        self._left_out = set[Kind]()
        self._refused = set[Which]()

    @property
    def place(self) -> Place:
        """Where the turn is."""
        second = self._places.second
        if self.which == "fallback" and second is not None:
            return second
        return self._places.first

    @property
    def seek(self) -> Seek | None:
        """What tells whether the turn goes on elsewhere; None if there is nowhere else."""
        if self._places.second is not None:
            return self._elsewhere
        return None

    async def begin(self, tx: Transaction, turn: int, *, deep: bool, hard: bool) -> None:
        """Decide where a turn is answered. `deep`: the second endpoint was asked for; `hard`: the turn
        thinks.
        """
        second = self._places.second
        if second is None:
            return
        consent = await chats.consent(tx, self._lane.chat, second.endpoint.host)
        choice = choose(second.endpoint, consent, deep=deep, hard=hard and self._places.for_hard)
        if choice.ask:
            await self._ask(tx, second.endpoint, HARD)
        await self._put(tx, turn, choice.which, choice.why)

    async def resume(self, tx: Transaction, turn: int) -> None:
        """Find where a turn stands that an earlier process began, or that began with a longer prompt."""
        self.which = await stored.endpoint(tx, turn)
        await self.settle(tx, turn)

    async def settle(self, tx: Transaction, turn: int) -> None:
        """Before a call is written down: see what may go to the second endpoint now. If nothing, the turn
        leaves it.
        """
        if self.which == "main":
            return
        second = self._places.second
        if second is None:
            await self._put(tx, turn, "main", "there is no second endpoint any more")
        elif second.endpoint.is_outside:
            consent = await chats.consent(tx, self._lane.chat, second.endpoint.host)
            self._allowed = consent.kinds or frozenset()
            if not consent.given:
                await self._put(tx, turn, "main", f"the chat says no to {second.endpoint.host}")

    def allows(self, kind: Kind) -> bool:
        """Whether this may go where the turn is."""
        return self.which == "main" or kind in self._allowed

    def sent(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages of a prompt as they go out."""
        if self.which == "fallback":
            withheld = withhold(messages, self._allowed)
            self._left_out |= withheld.left_out
            messages = withheld.messages
        if self.place.asking.blind:
            return unseen(messages)
        return messages

    def fitted(self, request: ModelRequest) -> ModelRequest:
        """The request as it goes out. Thinking is switched at the first endpoint only."""
        sent = self.sent(request.messages)
        if self.which == "main":
            if sent is request.messages:
                return request
            return replace(request, messages=sent)
        return replace(request, messages=sent, thinking=False, brake=None)

    def leave(self) -> Which | None:
        """Where the turn is to go on, after `seek` was told of a failure that it is left for; None: it stays."""
        leads = self._leads
        self._leads = None
        return leads

    async def go(self, tx: Transaction, turn: int, to: Which) -> None:
        """Go on at this endpoint; may be repeated when the transaction fails."""
        left: Which = "main" if to == "fallback" else "fallback"
        ordinal = "first" if left == "main" else "second"
        why = "refused the turn" if left in self._refused else "did not answer"
        await self._put(tx, turn, to, f"the {ordinal} endpoint {why}")
        await self.settle(tx, turn)

    def signature(self, model: str | None, *, deep: bool) -> str:
        """The line that says who wrote an answer, where that is not taken for granted; in Markdown, else
        empty.
        """
        name = _told(model or self.place.endpoint.name())
        if self.which == "main":
            if deep:
                return f"— written by {name}, not by the second model"
            return ""
        missing = [kind for kind in KINDS if kind in self._left_out]
        without = f", without your {' and '.join(missing)}" if missing else ""
        return f"— written by {name}{without}"

    async def _elsewhere(self, *, refused: bool) -> Elsewhere:
        if refused:
            self._refused.add(self.which)
        first = self._places.first.endpoint
        second = self._places.second
        other: Endpoint | None = first
        if self.which != "fallback":
            other = second.endpoint if second else None
        if other is None or other.which in self._refused:
            return "no"
        found: Elsewhere = "go"
        if other.is_outside and other is not first:
            found = await patiently(lambda: self._agreed(other))
        self._leads = other.which if found == "go" else None
        return found

    async def _agreed(self, second: Endpoint) -> Elsewhere:
        """What the chat lets happen; the first time it is asked."""
        async with self._places.database.transaction() as tx:
            consent = await chats.consent(tx, self._lane.chat, second.host)
            if consent.kinds is not None:
                if consent.given:
                    return "go"
                return "no"
            await self._ask(tx, second, DOWN)
        self._places.wake(self._lane)
        return "wait"

    async def _ask(self, tx: Transaction, second: Endpoint, occasion: str) -> None:
        """Put the question to the chat, once."""
        if await chats.ask_consent(tx, self._lane.chat, second.host):
            parts = (question(second, occasion),)
            await outbox.add(tx, item=None, lane=self._lane, parts=parts, now=time.time())

    async def _put(self, tx: Transaction, turn: int, which: Which, why: str) -> None:
        self.which = which
        await stored.move(tx, turn, which, why)


def _told(name: str) -> str:
    """A model's name as Markdown that shows it as it is."""
    return _ODD.sub("", name)[:LONGEST_NAME].replace("_", r"\_") or "another model"
