"""The endpoints a turn may be answered by, and the judgements about the second one: when it is used, whether
it is outside the own network, and what of a prompt may go there. Judges purely; owns the second one's model.
"""

import hashlib
import ipaddress
import re
from collections.abc import AsyncIterator, Callable, Iterable, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from bot.agent import history
from bot.db.conversations.chat_settings import CONTENT_KINDS, Consent, ContentKind
from bot.db.conversations.turns import DEEP_REASON
from bot.domain import Button, EndpointRole, LanguageModel, Message, Part
from bot.llm.client import ModelClient, SettingNames
from bot.llm.dialect import PLAIN
from bot.llm.seats import SeatLimiter
from bot.settings import Settings

CONSENT_PREFIX: Final = "consent"

# Written out, because what `is_private` holds for private differs between Python's patch releases, and it
# takes in addresses that carry another one.
_PRIVATE_NETWORKS = [
    ipaddress.ip_network(block)
    for block in (
        *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"),
        *("::1/128", "fc00::/7", "fe80::/10"),
    )
]
_PRIVATE_SUFFIXES = {"local", "internal", "lan"}
_HOST_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")  # resolvers read a name that ends so as an IPv4 address

# A block whose end was cut off reaches to the end of its text.
_DATA_BLOCK = r"\[data: {label}[^\]\n]*\]\n.*?(?:\n\[end of data\]|\Z)"
_FILE_BLOCK = re.compile(_DATA_BLOCK.format(label=r"file\b"), re.DOTALL)
_NOTES_KINDS = frozenset[ContentKind]({"notes"})
_PAST_KINDS = frozenset[ContentKind]({"notes", "files"})
_HEAD_BLOCKS = (
    (re.compile(_DATA_BLOCK.format(label="notes of this chat"), re.DOTALL), _NOTES_KINDS),
    (re.compile(_DATA_BLOCK.format(label="summary of what was said before"), re.DOTALL), _PAST_KINDS),
)
HEAD_MESSAGES: Final = 2  # messages behind the system text that may be such a block
_KINDS_BY_TOOL = {
    "recall": _NOTES_KINDS,
    "look_back": _PAST_KINDS,
}  # tools, and what their results may tell of

NO_RESULT = "[left out: it may tell of what must stay here]"
NO_FILE = "[a file was left out]"
NO_IMAGE = "[an image was left out]"


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """A place that answers: `which` of the two, as turns store it; its address; `name` tells the model behind
    it.
    """

    role: EndpointRole
    url: str
    model: LanguageModel
    model_name: Callable[[], str]

    @property
    def host(self) -> str:
        """The host of its address, as people are told it."""
        return parse_host(self.url)

    @property
    def is_external(self) -> bool:
        """Whether chats must be asked before anything goes there."""
        return not is_private_host(self.host)


@dataclass(frozen=True, slots=True)
class EndpointChoice:
    """Where a turn begins, and why. `ask`: the chat must be asked before the second endpoint may be used for
    it.
    """

    role: EndpointRole
    reason: str
    needs_consent: bool = False


@dataclass(frozen=True, slots=True)
class RedactedPrompt:
    """A prompt as it may leave the house, and what of it was left out."""

    messages: tuple[Message, ...]
    left_out: frozenset[ContentKind] = frozenset()


class _FallbackClient(ModelClient):
    setting_names = SettingNames("FALLBACK_URL", "FALLBACK_MODEL", "FALLBACK_API_KEY")


@asynccontextmanager
async def open_fallback_endpoint(settings: Settings) -> AsyncIterator[ModelEndpoint | None]:
    """The second endpoint while the block runs; None if none is set up. It is spoken to as any hosted model
    is.
    """
    if settings.fallback_url is None:
        yield None
        return
    model = _FallbackClient(
        settings.fallback_url,
        settings.fallback_model,
        SeatLimiter(settings.fallback_seats),
        dialect=PLAIN,
        api_key=settings.fallback_api_key.get_secret_value() if settings.fallback_api_key else None,
    )
    try:
        yield ModelEndpoint("fallback", settings.fallback_url, model, lambda: model.name)
    finally:
        await model.close()


def build_consent_question(fallback: ModelEndpoint, occasion: str, *, item: int = 0) -> Part:
    """What a chat is asked before anything of it goes to this endpoint; `item` is the message that waits for
    it.
    """
    text = (
        f"{occasion}, what is written in this chat would be sent to {fallback.host}, which is outside our own network. "
        "Your notes, files and images stay here unless you allow them, too. May it?"
    )
    answers = {"text": "Yes, text only", "all": "Also notes, files, images", "no": "No"}
    rows = tuple(
        (Button(label, format_consent_data(answer, fallback, item)),) for answer, label in answers.items()
    )
    return Part(text, buttons=rows)


def format_consent_data(answer: str, fallback: ModelEndpoint, item: int = 0) -> str:
    """The callback data of a button about consent: what is wished, for which message, and for which host."""
    return f"{CONSENT_PREFIX}:{answer}:{item}:{hash_host(fallback.host)}"


def hash_host(host: str) -> str:
    """A host in few letters: a button holds for the host it named only."""
    return hashlib.sha256(host.encode()).hexdigest()[:12]


def parse_host(url: str) -> str:
    """The host of an address, in small letters and without a dot at its end."""
    return (urlsplit(url).hostname or "").rstrip(".")


def is_private_host(host: str) -> bool:
    """Whether a host stands on the own network, judged by its name or number alone: names are not resolved.

    Own are loopback, private and link-local addresses, names of one label, and those that end in .local,
    .internal or .lan. What only looks like a name, such as 134744072 for 8.8.8.8, is not.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        labels = host.split(".")
        if not all(_HOST_LABEL.fullmatch(label) for label in labels) or _NUMERIC_LABEL.fullmatch(labels[-1]):
            return False
        return len(labels) == 1 or labels[-1] in _PRIVATE_SUFFIXES
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in block for block in _PRIVATE_NETWORKS if block.version == address.version)


def choose_endpoint(
    fallback: ModelEndpoint | None, consent: Consent, *, deep: bool, wants_fallback: bool
) -> EndpointChoice:
    """Where a turn begins. `deep`: the person asked for the second endpoint; `hard`: it is wanted for such
    turns.
    """
    if fallback is None or not (deep or wants_fallback):
        return EndpointChoice("main", "the first endpoint answers unless it is down")
    why = DEEP_REASON if deep else "the turn is a hard one"
    if can_send_to(fallback, consent):
        return EndpointChoice("fallback", why)
    told = "said no to" if consent.kinds is not None else "has not agreed to"
    return EndpointChoice(
        "main", f"{why}, but the chat {told} {fallback.host}", needs_consent=consent.kinds is None
    )


def can_send_to(fallback: ModelEndpoint, consent: Consent) -> bool:
    """Whether messages of a chat that said this may go to the second endpoint."""
    return consent.is_given or not fallback.is_external


def redact(messages: Iterable[Message], allowed_kinds: Iterable[ContentKind]) -> RedactedPrompt:
    """The prompt without what may not leave the house: notes, files and images that are not `allowed`.

    Works on the marks the house puts around text of others: nothing inside such a block can end it or begin
    another.
    """
    sieve = _Redactor(set(CONTENT_KINDS) - set(allowed_kinds))
    passed = [sieve.redact(message, number) for number, message in enumerate(messages)]
    return RedactedPrompt(tuple(one for one in passed if one is not None), frozenset(sieve.left_out))


class _Redactor:
    """Lets the messages of a prompt through, in order, and notes what it kept back."""

    def __init__(self, forbidden: set[ContentKind]) -> None:
        self.left_out: set[ContentKind] = set()
        self._forbidden = forbidden
        self._kinds_by_call: dict[
            str | None, frozenset[ContentKind]
        ] = {}  # by the id of a call: what its result may tell of

    def redact(self, message: Message, position: int) -> Message | None:
        """The message at this place of the prompt as it may go out; None if nothing of it may."""
        for call in message.calls:
            self._kinds_by_call[call.id] = _KINDS_BY_TOOL.get(call.name, frozenset())
        if message.role == "user":
            return self._redact_user_message(message, in_head=0 < position <= HEAD_MESSAGES)
        if message.role == "tool":
            return self._redact_tool_result(message)
        return message

    def _redact_user_message(self, message: Message, *, in_head: bool) -> Message | None:
        if in_head and any(
            block.fullmatch(message.text) and self._must_withhold(kinds) for block, kinds in _HEAD_BLOCKS
        ):
            return None
        return self._redact_content(message)

    def _redact_tool_result(self, message: Message) -> Message:
        if self._must_withhold(self._kinds_by_call.get(message.call_id, frozenset())):
            return replace(message, text=NO_RESULT, images=())
        return self._redact_content(message)

    def _redact_content(self, message: Message) -> Message:
        text = self._strip_files(message.text)
        if message.images and self._must_withhold({"images"}):
            return history.replace_images(replace(message, text=text), NO_IMAGE)
        if text == message.text:
            return message
        return replace(message, text=text)

    def _strip_files(self, text: str) -> str:
        if not _FILE_BLOCK.search(text) or not self._must_withhold({"files"}):
            return text
        return _FILE_BLOCK.sub(NO_FILE, text)

    def _must_withhold(self, kinds: Set[ContentKind]) -> bool:
        """Whether what tells of these is kept back; notes that it was."""
        forbidden = kinds & self._forbidden
        self.left_out |= forbidden
        return bool(forbidden)
