"""Records what a turn has read: whether text of strangers is among it, and the URLs that stand in it. Pure.

Text of strangers can mislead the model as long as it is in the prompt, not only in the turn that brought it;
approval_policy bounds what the model may do meanwhile.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from bot.agent.argument_urls import MAX_ADDRESSES, list_addresses
from bot.agent.history import IMAGE_PLACEHOLDER
from bot.agent.prompt import (
    FILES_LABEL,
    NOTES_LABEL,
    SUMMARY_LABEL,
    begins_with_block,
    has_data_block,
    strip_data_marks,
)
from bot.agent.urls import (
    extract_host,
    find_urls_in_text,
    is_address_in_text,
    is_url_prefix_in_text,
    normalize_url,
)
from bot.domain import Message, ToolCall, ToolResult
from tools.base import Tool

_TOOL_OUTCOMES = frozenset({"ok", "error"})  # of all other outcomes the gateway wrote the text

MAX_CHOSEN = 3  # addresses of one site, brought by one text of strangers, that are opened unasked

FROM_MESSAGES = ""
"""The origin of strangers' text that no result of a tool brought."""

# Nobody can be told to do anything in these: a date, a UUID, an id.
_WORDLESS = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|(?=[^0-9]*[0-9])(?!.*[A-Za-z]{4})[A-Za-z0-9_.:+=-]{1,40}"
)


@dataclass(slots=True)
class TaintState:
    """What a turn has read so far, its prompt included.

    turn_origins: what brought text of strangers into this turn, by the names of tools.
    history_origins: what brought such text into the prompt before this turn.
    texts: texts whose URLs may be opened.
    opened: addresses in the arguments of calls that ran.
    results: result texts whose URLs may be opened, each with the arguments of its call: a URL that the result
        only repeats from them does not count.
    """

    turn_origins: frozenset[str] = frozenset()
    history_origins: frozenset[str] = frozenset()
    texts: list[str] = field(default_factory=list)
    opened: frozenset[str] = frozenset()
    results: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_turn_tainted(self) -> bool:
        """Whether text of strangers came into this turn."""
        return bool(self.turn_origins)

    @property
    def origins(self) -> frozenset[str]:
        """What brought the text of strangers that is in the prompt, from whenever."""
        return self.turn_origins | self.history_origins

    def add_result(self, tool: Tool | None, result: ToolResult) -> None:
        """Count a result in; that of a tool no longer known (None) may be text of strangers."""
        is_outside = result.outcome in _TOOL_OUTCOMES and (tool is None or tool.outside)
        # The gateway's own error texts only repeat what the model sent.
        if is_outside or result.outcome == "ok":
            self.results.append((result.text, _strip_opened_url(tool, result.call.arguments)))
            self.opened |= _find_opened(tool, result.call.arguments)
        if is_outside and _can_mislead(tool, result.text):
            self.turn_origins |= {result.call.name}

    def has_chosen_many(self, addresses: Collection[str]) -> bool:
        """Whether one text of strangers brought more than MAX_CHOSEN of the addresses of a site.

        With these, of all that were opened: which of them are could tell that site what the model knows.
        """
        if not addresses:
            return False
        opened = {*self.opened, *addresses}
        for text in self.texts:
            if not has_data_block(text):
                opened -= find_urls_in_text(opened, text)
        sites = {_find_site(address) for address in addresses}
        for text in (*filter(has_data_block, self.texts), *(text for text, _ in self.results)):
            chosen = Counter(map(_find_site, find_urls_in_text(opened, text)))
            if any(chosen[site] > MAX_CHOSEN for site in sites):
                return True
        return False

    def knows_address(self, address: str) -> bool:
        """Whether the address was read; one that a result only repeats from its own call does not count.

        One that is no web URL is compared as it is written.
        """
        return bool(self.find_known([address]))

    def find_known(self, addresses: Iterable[str]) -> set[str]:
        """Those of the addresses that were read; each text is looked through once."""
        unknown = set(addresses)
        known = set[str]()
        for text, arguments in (*((text, "") for text in self.texts), *self.results):
            found = find_urls_in_text(unknown, text)
            found |= {address for address in unknown if is_address_in_text(address, text)}
            known |= {address for address in found if not _is_repeated(address, arguments)}
            unknown -= known
        return known


def has_free_text(text: str, declared_names: Collection[str] = ()) -> bool:
    """Whether a result says more than numbers, booleans, null, dates, UUIDs and ids.

    The keys of objects are judged as strings are, but for the names that the tool's schema declares.
    """

    def read_object(pairs: list[tuple[str, object]]) -> list[object]:
        keys = [key for key, _ in pairs if key not in declared_names]
        return [*keys, *(value for _, value in pairs)]

    value: object
    try:
        value = json.loads(text, object_pairs_hook=read_object)
    except (ValueError, RecursionError):
        value = text
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        elif isinstance(value, str) and not _WORDLESS.fullmatch(value):
            return True
    return False


def _can_mislead(tool: Tool | None, text: str) -> bool:
    """Whether a result that strangers wrote holds words, and no admin trusts those who wrote it."""
    if tool is None:
        return True
    return not tool.trusted and has_free_text(strip_data_marks(text), tool.input_schema.get("properties", ()))


def _find_opened(tool: Tool | None, arguments: str) -> frozenset[str]:
    """The addresses in the arguments of a call that ran."""
    if tool is None:
        return frozenset()
    addresses = islice(list_addresses(json.loads(arguments), tool.opens), MAX_ADDRESSES)
    return frozenset(address for address in addresses if isinstance(address, str))


def _find_site(address: str) -> str:
    """The last two labels of an address's host: who owns them names all hosts below."""
    host = extract_host(address) or ""
    return ".".join(host.partition(":")[0].split(".")[-2:])


def _is_repeated(address: str, arguments: str) -> bool:
    """Whether the arguments of a call contain the address."""
    if normalize_url(address) is None:
        return address in arguments
    return is_url_prefix_in_text(address, arguments)


def build_taint_state(
    prompt: Sequence[Message],
    user_messages: Sequence[Message],
    tools: Mapping[str, Tool],
    *,
    continues_answer: bool = False,
    is_summary_outside: bool = False,
) -> TaintState:
    """What a turn has read before its first call: its `prompt`, which ends with its own `user_messages`.

    Notes never taint: they were written by people, or before any text of strangers, or a person allowed each.
    `is_summary_outside`: the summary was made of text of strangers; then its URLs may be theirs, too. A turn
    that continues an answer is tainted by what that answer had read as by its own.
    """
    history = prompt[: len(prompt) - len(user_messages)]
    taint_state = TaintState()
    if any(map(_is_from_outside, user_messages)):
        taint_state.turn_origins = frozenset({FROM_MESSAGES})
    taint_state.texts += [message.text for message in user_messages]
    calls_by_id: dict[str | None, ToolCall] = {}
    for message in history:
        calls_by_id |= {call.id: call for call in message.calls}
        call = calls_by_id.get(message.call_id)
        if begins_with_block(message.text, SUMMARY_LABEL):
            if is_summary_outside:
                taint_state.history_origins |= {FROM_MESSAGES}
                continue
        elif _is_from_outside(message):
            tool = tools.get(call.name) if call is not None else None
            if _can_mislead(tool, message.text):
                taint_state.history_origins |= {call.name if call is not None else FROM_MESSAGES}
        if message.role == "user":
            taint_state.texts.append(message.text)
        elif message.role == "tool":
            _add_earlier_result(taint_state, call, message.text, tools)
    if continues_answer:
        taint_state.turn_origins |= taint_state.history_origins
    return taint_state


def _is_from_outside(message: Message) -> bool:
    """Whether a message holds text of strangers, or an image, or did before it was shortened."""
    if message.role not in {"user", "tool"}:
        return False
    if begins_with_block(message.text, NOTES_LABEL, FILES_LABEL):  # people saw these names as they kept files
        return False
    has_image = message.role == "user" and (bool(message.images) or IMAGE_PLACEHOLDER in message.text)
    return has_image or has_data_block(message.text)


def _add_earlier_result(
    taint_state: TaintState, call: ToolCall | None, text: str, tools: Mapping[str, Tool]
) -> None:
    """Count in a result of an earlier turn, whose URLs may be opened but for those of the call itself."""
    if call is None or not has_data_block(text):
        # It may not have run, and the result may be a refusal that repeats the arguments.
        taint_state.results.append((text, call.arguments if call is not None else ""))
        return
    tool = tools.get(call.name)
    taint_state.opened |= _find_opened(tool, call.arguments)
    taint_state.results.append((text, _strip_opened_url(tool, call.arguments)))


def _strip_opened_url(tool: Tool | None, arguments: str) -> str:
    """The arguments of a call without the URL that it was allowed to open."""
    if tool is None or tool.opens is None:
        return arguments
    return json.dumps({key: value for key, value in json.loads(arguments).items() if key != tool.opens})
