"""Routes the model calls of a turn: to which endpoint, with what of the prompt, when to fail over.

Asks the chat where that needs its consent.
"""

import re
import time
from dataclasses import dataclass, replace

from bot.db.conversations import chat_settings, turns
from bot.db.conversations.chat_settings import CONTENT_KINDS, ContentKind
from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues import outbox
from bot.db.retry import retry_until_available
from bot.db.transaction import Transaction
from bot.domain import EndpointRole, Lane, Message, ModelRequest
from bot.translations.formats import format_series
from bot.translations.translator import Translator, translatable
from bot.turns.endpoints import CONTENT_NAMES, ModelEndpoint, build_consent_question, choose_endpoint
from bot.turns.model_caller import FailoverDecision, FailoverPolicy, ModelCaller, limit_images
from bot.turns.redaction import redact

OCCASION_HARD_QUESTION = translatable(
    "For hard questions I can use a second model at {host}, outside our network. I'd send the text of this "
    "chat there."
)
OCCASION_MAIN_DOWN = translatable(
    "My model isn't answering. The second one runs at {host}, outside our network. To use it, I'd send the "
    "text of this chat there."
)
MAX_NAME_CHARS = 80

_ORDINALS: dict[EndpointRole, str] = {"main": "first", "fallback": "second"}
_UNSAFE_CHARS = re.compile(r"[^\w./:@+ -]")


@dataclass(frozen=True, slots=True)
class EndpointRoute:
    """An endpoint and its caller; `can_continue`: it continues an unfinished answer if it is asked to."""

    endpoint: ModelEndpoint
    caller: ModelCaller
    can_continue: bool


@dataclass(frozen=True, slots=True)
class EndpointRoutes:
    """The routes to both endpoints, or to the main one alone.

    `fallback_for_thinking`: turns that think are answered by the second endpoint.
    """

    database: Database
    main: EndpointRoute
    fallback: EndpointRoute | None
    fallback_for_thinking: bool = False


class EndpointRouter:
    """Routes one turn; `role` says which endpoint it is at."""

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
        """The route the turn is at."""
        fallback = self._routes.fallback
        if self.role == "fallback" and fallback is not None:
            return fallback
        return self._routes.main

    @property
    def failover_policy(self) -> FailoverPolicy | None:
        """Decides whether the turn continues at the other endpoint; None if there is none."""
        if self._routes.fallback is None:
            return None
        return self._decide_failover

    async def start(self, tx: Transaction, turn: int, *, deep: bool, thinks: bool) -> None:
        """Decide and store where a turn is answered; `deep`: the second endpoint was asked for."""
        fallback = self._routes.fallback
        if fallback is None:
            return
        consent = await chat_settings.load_consent(tx, self._lane.chat, fallback.endpoint.host)
        wants_fallback = thinks and self._routes.fallback_for_thinking
        choice = choose_endpoint(fallback.endpoint, consent, deep=deep, wants_fallback=wants_fallback)
        if choice.needs_consent:
            await self._ask_consent(tx, fallback.endpoint, OCCASION_HARD_QUESTION)
        await self._store_role(tx, turn, choice.role, choice.reason)

    async def resume(self, tx: Transaction, turn: int) -> None:
        """Find where a turn is that an earlier process began, or that began with a longer prompt."""
        self.role = await turns.load_endpoint(tx, turn)
        await self.recheck_consent(tx, turn)

    async def recheck_consent(self, tx: Transaction, turn: int) -> None:
        """Load what may go to the second endpoint now; if nothing may, the turn leaves it.

        To be called before a model call is stored.
        """
        if self.role == "main":
            return
        fallback = self._routes.fallback
        if fallback is None:
            await self._store_role(tx, turn, "main", "there is no second endpoint any more")
        elif fallback.endpoint.is_external:
            consent = await chat_settings.load_consent(tx, self._lane.chat, fallback.endpoint.host)
            self._allowed_kinds = consent.kinds or frozenset()
            if not consent.is_given:
                await self._store_role(tx, turn, "main", f"the chat says no to {fallback.endpoint.host}")

    def is_allowed(self, kind: ContentKind) -> bool:
        """Whether content of this kind may go where the turn is."""
        return self.role == "main" or kind in self._allowed_kinds

    def prepare_messages(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages of a prompt as they go out."""
        if self.role == "fallback":
            redacted = redact(messages, self._allowed_kinds)
            self._left_out_kinds |= redacted.left_out
            messages = redacted.messages
        max_images = self.route.caller.max_images
        if max_images is not None:
            return limit_images(messages, max_images)
        return messages

    def prepare_request(self, request: ModelRequest) -> ModelRequest:
        """The request as it goes out. Only the main endpoint may think."""
        messages = self.prepare_messages(request.messages)
        if self.role == "fallback":
            return replace(request, messages=messages, thinking=False, max_thinking_tokens=None)
        if messages is request.messages:
            return request
        return replace(request, messages=messages)

    def take_failover(self) -> EndpointRole | None:
        """Where the turn continues after a failure, if the failover policy decided so; None: it stays.

        Asked once a failure: it is None again afterwards.
        """
        target_role = self._pending_failover
        self._pending_failover = None
        return target_role

    async def switch_to(self, tx: Transaction, turn: int, target_role: EndpointRole) -> None:
        """Continue at this endpoint; may be repeated when the transaction fails."""
        failed_role: EndpointRole = "main" if target_role == "fallback" else "fallback"
        failure = "refused the turn" if failed_role in self._refused_by else "did not answer"
        await self._store_role(tx, turn, target_role, f"the {_ORDINALS[failed_role]} endpoint {failure}")
        await self.recheck_consent(tx, turn)

    def format_signature(self, translate: Translator, model_name: str | None, *, deep: bool) -> str:
        """The line (Markdown) that says which model wrote an answer; empty where it is the expected one."""
        name = _escape_model_name(model_name or self.route.endpoint.model_name())
        if self.role == "main":
            if deep:
                return translate("— written by {model}, not by the second model", model=name)
            return ""
        left_out = [kind for kind in CONTENT_KINDS if kind in self._left_out_kinds]
        if not left_out:
            return translate("— written by {model}", model=name)
        kinds = format_series(translate, (translate(CONTENT_NAMES[kind]) for kind in left_out))
        return translate("— written by {model}, without: {kinds}", model=name, kinds=kinds)

    @property
    def _other_endpoint(self) -> ModelEndpoint | None:
        """The endpoint the turn is not at."""
        if self.role == "fallback":
            return self._routes.main.endpoint
        return self._routes.fallback.endpoint if self._routes.fallback else None

    async def _decide_failover(self, *, is_refusal: bool) -> FailoverDecision:
        if is_refusal:
            self._refused_by.add(self.role)
        target = self._other_endpoint
        if target is None or target.role in self._refused_by:
            return "no"
        decision: FailoverDecision = "go"
        if target.is_external and target is not self._routes.main.endpoint:
            decision = await retry_until_available(lambda: self._check_consent(target))
        self._pending_failover = None
        if decision == "go":
            self._pending_failover = target.role
        return decision

    async def _check_consent(self, fallback: ModelEndpoint) -> FailoverDecision:
        """What the chat has agreed to; it is asked if it has not been asked yet."""
        async with self._routes.database.transaction() as tx:
            consent = await chat_settings.load_consent(tx, self._lane.chat, fallback.host)
            if consent.is_given:
                return "go"
            if consent.kinds is not None:
                return "no"
            await self._ask_consent(tx, fallback, OCCASION_MAIN_DOWN)
            return "wait"

    async def _ask_consent(self, tx: Transaction, fallback: ModelEndpoint, occasion: str) -> None:
        """Ask the chat, once."""
        if await chat_settings.mark_consent_asked(tx, self._lane.chat, fallback.host):
            translate = await people.find_translator(tx, self._lane.chat)
            parts = (build_consent_question(translate, fallback, occasion),)
            await outbox.add(tx, item=None, lane=self._lane, parts=parts, now=time.time())

    async def _store_role(self, tx: Transaction, turn: int, role: EndpointRole, reason: str) -> None:
        self.role = role
        await turns.set_endpoint(tx, turn, role, reason)


def _escape_model_name(name: str) -> str:
    """A model's name as Markdown that shows it unchanged."""
    return _UNSAFE_CHARS.sub("", name)[:MAX_NAME_CHARS].replace("_", r"\_") or "another model"
