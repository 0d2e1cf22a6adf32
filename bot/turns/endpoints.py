"""The endpoints that answer turns: when the second one is used, whether it is outside the network.

The choices are pure; the module owns the second endpoint's client.
"""

import hashlib
import ipaddress
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from bot.db.conversations.chat_settings import Consent, ContentKind
from bot.db.conversations.turns import DEEP_REASON
from bot.domain import Button, EndpointRole, LanguageModel, Part
from bot.llm.client import ModelClient
from bot.llm.dialect import PLAIN
from bot.llm.endpoint_config import SettingNames
from bot.llm.seats import Seats
from bot.llm.typed_reads import TypedReader
from bot.settings import Settings, reveal
from bot.translations.translator import Translator, translatable

CONSENT_PREFIX: Final = "consent"

CONTENT_NAMES: dict[ContentKind, str] = {
    "text": translatable("messages"),
    "notes": translatable("notes"),
    "files": translatable("files"),
    "images": translatable("images"),
}

# Written out: what `is_private` counts as private differs between Python's patch releases, and it includes
# addresses that carry another one.
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


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """One of the two endpoints: its role as turns store it, its address, client, and model name.

    `reader` asks it typed questions; None: it is not asked any.
    """

    role: EndpointRole
    url: str
    model: LanguageModel
    model_name: Callable[[], str]
    reader: TypedReader | None = None

    @property
    def host(self) -> str:
        """The host of its address, as users read it."""
        return parse_host(self.url)

    @property
    def is_external(self) -> bool:
        """Whether chats must be asked before anything goes there."""
        return not is_private_host(self.host)


@dataclass(frozen=True, slots=True)
class EndpointChoice:
    """Where a turn begins, and why; `needs_consent`: the chat must agree before the second one is used."""

    role: EndpointRole
    reason: str
    needs_consent: bool = False


class _FallbackClient(ModelClient):
    setting_names = SettingNames("FALLBACK_URL", "FALLBACK_MODEL", "FALLBACK_API_KEY")


@asynccontextmanager
async def open_fallback_endpoint(settings: Settings, seats: Seats) -> AsyncIterator[ModelEndpoint | None]:
    """The second endpoint while the block runs; None if none is set up.

    It is called as any hosted model is, without vLLM's own parameters.
    """
    if settings.fallback_url is None:
        yield None
        return
    client = _FallbackClient(
        settings.fallback_url,
        settings.fallback_model,
        seats,
        dialect=PLAIN,
        api_key=reveal(settings.fallback_api_key),
    )
    try:
        reader = TypedReader(client)
        yield ModelEndpoint("fallback", settings.fallback_url, client, lambda: client.name, reader)
    finally:
        await client.close()


def build_consent_question(
    translate: Translator, fallback: ModelEndpoint, occasion: str, *, item: int = 0
) -> Part:
    """What a chat is asked before anything of it goes to this endpoint.

    `occasion`: a translatable text that says when, with the placeholder {host}.
    `item` is the inbox item of the message that waits for the answer; 0: none does.
    """
    question = translate("Notes, files and images stay here unless you allow those too. Is that OK?")
    text = f"{translate(occasion, host=fallback.host)} {question}"
    labels_by_answer = {
        "text": translate("Yes, text only"),
        "all": translate("Yes, everything"),
        "no": translate("No"),
    }
    rows = tuple(
        (Button(label, format_consent_data(answer, fallback, item)),)
        for answer, label in labels_by_answer.items()
    )
    return Part(text, buttons=rows)


def format_consent_data(answer: str, fallback: ModelEndpoint, item: int = 0) -> str:
    """The callback data of a consent button: the answer, for which inbox item, and for which host."""
    return f"{CONSENT_PREFIX}:{answer}:{item}:{hash_host(fallback.host)}"


def hash_host(host: str) -> str:
    """A host in 12 characters: a button holds only for the host it was made for."""
    return hashlib.sha256(host.encode()).hexdigest()[:12]


def parse_host(url: str) -> str:
    """The host of an address, in lower case and without a dot at its end."""
    return (urlsplit(url).hostname or "").rstrip(".")


def is_private_host(host: str) -> bool:
    """Whether a host is on our own network, judged by its name or number alone: names are not resolved.

    These are: loopback, private and link-local addresses, names of one label, and names that end in .local,
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
    """Where a turn begins.

    `deep`: the user asked for the second endpoint; `wants_fallback`: the settings want it for such a turn.
    """
    if fallback is None or not (deep or wants_fallback):
        return EndpointChoice("main", "the first endpoint answers unless it is down")
    reason = DEEP_REASON if deep else "the turn is a hard one"
    if can_send_to(fallback, consent):
        return EndpointChoice("fallback", reason)
    if consent.kinds is None:
        return EndpointChoice(
            "main", f"{reason}, but the chat has not agreed to {fallback.host}", needs_consent=True
        )
    return EndpointChoice("main", f"{reason}, but the chat said no to {fallback.host}")


def can_send_to(fallback: ModelEndpoint, consent: Consent) -> bool:
    """Whether messages of a chat with this consent may go to the second endpoint."""
    return consent.is_given or not fallback.is_external
