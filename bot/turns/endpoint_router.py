"""Where the model calls of one turn go: the endpoint it is at, what of its prompt may go there, and whether
it goes on at the other one. Asks the chat when that needs its consent.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from bot.db.conversations import chat_settings as chats
from bot.db.conversations import turns as stored
from bot.db.conversations.chat_settings import CONTENT_KINDS, ContentKind
from bot.db.engine import Database, Transaction
from bot.db.queues import outbox
from bot.db.retry import retry_until_available
from bot.domain import EndpointRole, Lane, Message, ModelRequest
from bot.turns.endpoints import ModelEndpoint, build_consent_question, choose_endpoint, redact
from bot.turns.model_caller import FailoverDecision, FailoverPolicy, ModelCaller, strip_images

OCCASION_HARD_QUESTION = "For hard questions"
OCCASION_MAIN_DOWN = "My model does not answer. If the second one goes on"
MAX_NAME_CHARS = 80

_UNSAFE_CHARS = re.compile(r"[^\w./:@+ -]")


@dataclass(frozen=True, slots=True)
class EndpointRoute:
    """An endpoint, and the way to ask it; `continues`: it goes on in the middle of an answer if it is asked
    to.
    """

    endpoint: ModelEndpoint
    caller: ModelCaller
    can_continue: bool


@dataclass(frozen=True, slots=True)
class EndpointRoutes:
    """Both endpoints, or the first alone. `wake` says that something is stored for a lane; `for_hard`: the
    second one is wanted for turns that think.
    """

    database: Database
    main: EndpointRoute
    fallback: EndpointRoute | None
    wake_sender: Callable[[Lane], None]
    fallback_for_thinking: bool = False


class EndpointRouter:
    """Of one turn; `which` is where it is."""

    def __init__(self, routes: EndpointRoutes, lane: Lane) -> None:
        self.role: EndpointRole = "main"
        self._routes = routes
        self._lane = lane
        self._pending_failover: EndpointRole | None = None
        self._allowed_kinds = frozenset(CONTENT_KINDS)
        self._left_out_kinds = set[ContentKind]()
        self._refused_by = set[EndpointRole]()

    @property
    def route(self) -> EndpointRoute:
        """Where the turn is."""
        second = self._routes.fallback
        if self.role == "fallback" and second is not None:
            return second
        return self._routes.main

    @property
    def failover_policy(self) -> FailoverPolicy | None:
        """What tells whether the turn goes on elsewhere; None if there is nowhere else."""
        if self._routes.fallback is not None:
            return self._decide_failover
        return None

    async def start(self, tx: Transaction, turn: int, *, deep: bool, thinks: bool) -> None:
        """Decide where a turn is answered. `deep`: the second endpoint was asked for; `hard`: the turn
        thinks.
        """
        second = self._routes.fallback
        if second is None:
            return
        consent = await chats.load_consent(tx, self._lane.chat, second.endpoint.host)
        choice = choose_endpoint(
            second.endpoint, consent, deep=deep, wants_fallback=thinks and self._routes.fallback_for_thinking
        )
        if choice.needs_consent:
            await self._ask_consent(tx, second.endpoint, OCCASION_HARD_QUESTION)
        await self._store_role(tx, turn, choice.role, choice.reason)

    async def resume(self, tx: Transaction, turn: int) -> None:
        """Find where a turn stands that an earlier process began, or that began with a longer prompt."""
        self.role = await stored.load_endpoint(tx, turn)
        await self.recheck_consent(tx, turn)

    async def recheck_consent(self, tx: Transaction, turn: int) -> None:
        """Before a call is written down: see what may go to the second endpoint now. If nothing, the turn
        leaves it.
        """
        if self.role == "main":
            return
        second = self._routes.fallback
        if second is None:
            await self._store_role(tx, turn, "main", "there is no second endpoint any more")
        elif second.endpoint.is_external:
            consent = await chats.load_consent(tx, self._lane.chat, second.endpoint.host)
            self._allowed_kinds = consent.kinds or frozenset()
            if not consent.is_given:
                await self._store_role(tx, turn, "main", f"the chat says no to {second.endpoint.host}")

    def is_allowed(self, kind: ContentKind) -> bool:
        """Whether this may go where the turn is."""
        return self.role == "main" or kind in self._allowed_kinds

    def prepare_messages(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages of a prompt as they go out."""
        if self.role == "fallback":
            withheld = redact(messages, self._allowed_kinds)
            self._left_out_kinds |= withheld.left_out
            messages = withheld.messages
        if self.route.caller.images_unsupported:
            return strip_images(messages)
        return messages

    def prepare_request(self, request: ModelRequest) -> ModelRequest:
        """The request as it goes out. Thinking is switched at the first endpoint only."""
        sent = self.prepare_messages(request.messages)
        if self.role == "main":
            if sent is request.messages:
                return request
            return replace(request, messages=sent)
        return replace(request, messages=sent, thinking=False, max_thinking_tokens=None)

    def take_failover(self) -> EndpointRole | None:
        """Where the turn is to go on, after `seek` was told of a failure that it is left for; None: it stays."""
        leads = self._pending_failover
        self._pending_failover = None
        return leads

    async def switch_to(self, tx: Transaction, turn: int, target_role: EndpointRole) -> None:
        """Go on at this endpoint; may be repeated when the transaction fails."""
        left: EndpointRole = "main" if target_role == "fallback" else "fallback"
        ordinal = "first" if left == "main" else "second"
        why = "refused the turn" if left in self._refused_by else "did not answer"
        await self._store_role(tx, turn, target_role, f"the {ordinal} endpoint {why}")
        await self.recheck_consent(tx, turn)

    def format_signature(self, model_name: str | None, *, deep: bool) -> str:
        """The line that says who wrote an answer, where that is not taken for granted; in Markdown, else
        empty.
        """
        name = _escape_model_name(model_name or self.route.endpoint.model_name())
        if self.role == "main":
            if deep:
                return f"— written by {name}, not by the second model"
            return ""
        missing = [kind for kind in CONTENT_KINDS if kind in self._left_out_kinds]
        without = f", without your {' and '.join(missing)}" if missing else ""
        return f"— written by {name}{without}"

    async def _decide_failover(self, *, is_refusal: bool) -> FailoverDecision:
        if is_refusal:
            self._refused_by.add(self.role)
        first = self._routes.main.endpoint
        second = self._routes.fallback
        other: ModelEndpoint | None = first
        if self.role != "fallback":
            other = second.endpoint if second else None
        if other is None or other.role in self._refused_by:
            return "no"
        found: FailoverDecision = "go"
        if other.is_external and other is not first:
            found = await retry_until_available(lambda: self._check_consent(other))
        self._pending_failover = other.role if found == "go" else None
        return found

    async def _check_consent(self, fallback: ModelEndpoint) -> FailoverDecision:
        """What the chat lets happen; the first time it is asked."""
        async with self._routes.database.transaction() as tx:
            consent = await chats.load_consent(tx, self._lane.chat, fallback.host)
            if consent.kinds is not None:
                if consent.is_given:
                    return "go"
                return "no"
            await self._ask_consent(tx, fallback, OCCASION_MAIN_DOWN)
        self._routes.wake_sender(self._lane)
        return "wait"

    async def _ask_consent(self, tx: Transaction, fallback: ModelEndpoint, occasion: str) -> None:
        """Put the question to the chat, once."""
        if await chats.mark_consent_asked(tx, self._lane.chat, fallback.host):
            parts = (build_consent_question(fallback, occasion),)
            await outbox.add(tx, item=None, lane=self._lane, parts=parts, now=time.time())

    async def _store_role(self, tx: Transaction, turn: int, role: EndpointRole, reason: str) -> None:
        self.role = role
        await stored.set_endpoint(tx, turn, role, reason)


def _escape_model_name(name: str) -> str:
    """A model's name as Markdown that shows it as it is."""
    return _UNSAFE_CHARS.sub("", name)[:MAX_NAME_CHARS].replace("_", r"\_") or "another model"
