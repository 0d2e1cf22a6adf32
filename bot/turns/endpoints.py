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
from bot.db.conversations.chat_settings import KINDS, Consent, Kind
from bot.db.conversations.turns import DEEP
from bot.domain import Button, LanguageModel, Message, Part, Which
from bot.llm.client import Knobs, Llm
from bot.llm.dialect import PLAIN
from bot.llm.seats import Seats
from bot.settings import Settings

CONSENT: Final = "consent"

# Written out, because what `is_private` holds for private differs between Python's patch releases, and it
# takes in addresses that carry another one.
_OWN_NETWORKS = [
    ipaddress.ip_network(block)
    for block in (
        *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"),
        *("::1/128", "fc00::/7", "fe80::/10"),
    )
]
_OWN_ENDINGS = {"local", "internal", "lan"}
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # resolvers read a name that ends so as an IPv4 address

# A block whose end was cut off reaches to the end of its text.
_BLOCK = r"\[data: {label}[^\]\n]*\]\n.*?(?:\n\[end of data\]|\Z)"
_FILE = re.compile(_BLOCK.format(label=r"file\b"), re.DOTALL)
_NOTES = frozenset[Kind]({"notes"})
_PAST = frozenset[Kind]({"notes", "files"})
_HEAD_BLOCKS = (
    (re.compile(_BLOCK.format(label="notes of this chat"), re.DOTALL), _NOTES),
    (re.compile(_BLOCK.format(label="summary of what was said before"), re.DOTALL), _PAST),
)
HEAD: Final = 2  # messages behind the system text that may be such a block
_READERS = {"recall": _NOTES, "look_back": _PAST}  # tools, and what their results may tell of

NO_RESULT = "[left out: it may tell of what must stay here]"
NO_FILE = "[a file was left out]"
NO_IMAGE = "[an image was left out]"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A place that answers: `which` of the two, as turns store it; its address; `name` tells the model behind
    it.
    """

    which: Which
    url: str
    model: LanguageModel
    name: Callable[[], str]

    @property
    def host(self) -> str:
        """The host of its address, as people are told it."""
        return host_of(self.url)

    @property
    def is_outside(self) -> bool:
        """Whether chats must be asked before anything goes there."""
        return not is_own(self.host)


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a turn begins, and why. `ask`: the chat must be asked before the second endpoint may be used for
    it.
    """

    which: Which
    why: str
    ask: bool = False


@dataclass(frozen=True, slots=True)
class Withheld:
    """A prompt as it may leave the house, and what of it was left out."""

    messages: tuple[Message, ...]
    left_out: frozenset[Kind] = frozenset()


class _Second(Llm):
    knobs = Knobs("FALLBACK_URL", "FALLBACK_MODEL", "FALLBACK_API_KEY")


@asynccontextmanager
async def second(settings: Settings) -> AsyncIterator[Endpoint | None]:
    """The second endpoint while the block runs; None if none is set up. It is spoken to as any hosted model
    is.
    """
    if settings.fallback_url is None:
        yield None
        return
    model = _Second(
        settings.fallback_url,
        settings.fallback_model,
        Seats(settings.fallback_seats),
        dialect=PLAIN,
        api_key=settings.fallback_api_key.get_secret_value() if settings.fallback_api_key else None,
    )
    try:
        yield Endpoint("fallback", settings.fallback_url, model, lambda: model.name)
    finally:
        await model.close()


def question(second: Endpoint, occasion: str, *, item: int = 0) -> Part:
    """What a chat is asked before anything of it goes to this endpoint; `item` is the message that waits for
    it.
    """
    text = (
        f"{occasion}, what is written in this chat would be sent to {second.host}, which is outside our own network. "
        "Your notes, files and images stay here unless you allow them, too. May it?"
    )
    answers = {"text": "Yes, text only", "all": "Also notes, files, images", "no": "No"}
    rows = tuple((Button(label, button(answer, second, item)),) for answer, label in answers.items())
    return Part(text, buttons=rows)


def button(wish: str, second: Endpoint, item: int = 0) -> str:
    """The callback data of a button about consent: what is wished, for which message, and for which host."""
    return f"{CONSENT}:{wish}:{item}:{seal(second.host)}"


def seal(host: str) -> str:
    """A host in few letters: a button holds for the host it named only."""
    return hashlib.sha256(host.encode()).hexdigest()[:12]


def host_of(url: str) -> str:
    """The host of an address, in small letters and without a dot at its end."""
    return (urlsplit(url).hostname or "").rstrip(".")


def is_own(host: str) -> bool:
    """Whether a host stands on the own network, judged by its name or number alone: names are not resolved.

    Own are loopback, private and link-local addresses, names of one label, and those that end in .local,
    .internal or .lan. What only looks like a name, such as 134744072 for 8.8.8.8, is not.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        labels = host.split(".")
        if not all(_LABEL.fullmatch(label) for label in labels) or _NUMBER.fullmatch(labels[-1]):
            return False
        return len(labels) == 1 or labels[-1] in _OWN_ENDINGS
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in block for block in _OWN_NETWORKS if block.version == address.version)


def choose(second: Endpoint | None, consent: Consent, *, deep: bool, hard: bool) -> Choice:
    """Where a turn begins. `deep`: the person asked for the second endpoint; `hard`: it is wanted for such
    turns.
    """
    if second is None or not (deep or hard):
        return Choice("main", "the first endpoint answers unless it is down")
    why = DEEP if deep else "the turn is a hard one"
    if may_go(second, consent):
        return Choice("fallback", why)
    told = "said no to" if consent.kinds is not None else "has not agreed to"
    return Choice("main", f"{why}, but the chat {told} {second.host}", ask=consent.kinds is None)


def may_go(second: Endpoint, consent: Consent) -> bool:
    """Whether messages of a chat that said this may go to the second endpoint."""
    return consent.given or not second.is_outside


def withhold(messages: Iterable[Message], allowed: Iterable[Kind]) -> Withheld:
    """The prompt without what may not leave the house: notes, files and images that are not `allowed`.

    Works on the marks the house puts around text of others: nothing inside such a block can end it or begin
    another.
    """
    sieve = _Sieve(set(KINDS) - set(allowed))
    passed = [sieve.passed(message, number) for number, message in enumerate(messages)]
    return Withheld(tuple(one for one in passed if one is not None), frozenset(sieve.left_out))


class _Sieve:
    """Lets the messages of a prompt through, in order, and notes what it kept back."""

    def __init__(self, forbidden: set[Kind]) -> None:
        self.left_out: set[Kind] = set()
        self._forbidden = forbidden
        self._told: dict[str | None, frozenset[Kind]] = {}  # by the id of a call: what its result may tell of

    def passed(self, message: Message, number: int) -> Message | None:
        """The message at this place of the prompt as it may go out; None if nothing of it may."""
        for call in message.calls:
            self._told[call.id] = _READERS.get(call.name, frozenset())
        if message.role == "user":
            return self._user(message, in_head=0 < number <= HEAD)
        if message.role == "tool":
            return self._result(message)
        return message

    def _user(self, message: Message, *, in_head: bool) -> Message | None:
        if in_head and any(
            block.fullmatch(message.text) and self._keeps(kinds) for block, kinds in _HEAD_BLOCKS
        ):
            return None
        return self._plain(message)

    def _result(self, message: Message) -> Message:
        if self._keeps(self._told.get(message.call_id, frozenset())):
            return replace(message, text=NO_RESULT, images=())
        return self._plain(message)

    def _plain(self, message: Message) -> Message:
        text = self._without_files(message.text)
        if message.images and self._keeps({"images"}):
            return history.without_images(replace(message, text=text), NO_IMAGE)
        if text == message.text:
            return message
        return replace(message, text=text)

    def _without_files(self, text: str) -> str:
        if not _FILE.search(text) or not self._keeps({"files"}):
            return text
        return _FILE.sub(NO_FILE, text)

    def _keeps(self, kinds: Set[Kind]) -> bool:
        """Whether what tells of these is kept back; notes that it was."""
        forbidden = kinds & self._forbidden
        self.left_out |= forbidden
        return bool(forbidden)
