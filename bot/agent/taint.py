"""Records what a turn has read: whether text of strangers is among it, and the URLs that stand in it. Pure.

Text of strangers can mislead the model; approval_policy bounds what the model may do after reading it.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from bot.agent.prompt import has_data_block, is_notes_message
from bot.agent.urls import is_url_in_texts, is_url_prefix_in_text
from bot.domain import Message, ToolResult
from tools.base import Tool

_TOOL_OUTCOMES = frozenset({"ok", "error"})  # of all other outcomes the gateway wrote the text


@dataclass(slots=True)
class TaintState:
    """What a turn has read so far.

    is_tainted: whether text of strangers is among it.
    texts: texts whose URLs may be opened.
    results: result texts whose URLs may be opened, each with the arguments of its call: a URL that the result
        only repeats from them does not count.
    """

    is_tainted: bool = False
    texts: list[str] = field(default_factory=list)
    results: list[tuple[str, str]] = field(default_factory=list)

    def add_result(self, tool: Tool | None, result: ToolResult) -> None:
        """Count a result in; that of a tool no longer known (None) may be text of strangers."""
        is_outside = result.outcome in _TOOL_OUTCOMES and (tool is None or tool.outside)
        # The gateway's own error texts only repeat what the model sent.
        if is_outside or result.outcome == "ok":
            self.results.append((result.text, _strip_opened_url(tool, result.call.arguments)))
        self.is_tainted |= is_outside

    def knows_url(self, url: str) -> bool:
        """Whether the URL was read; one that a result only repeats from its own call does not count."""
        return is_url_in_texts(url, self.texts) or any(
            is_url_in_texts(url, [text]) and not is_url_prefix_in_text(url, arguments)
            for text, arguments in self.results
        )


def build_taint_state(
    prompt: Iterable[Message], user_messages: Iterable[Message], *, continues_answer: bool = False
) -> TaintState:
    """What a turn has read before its first call: its `prompt`, of which `user_messages` are its own.

    Text of strangers in earlier turns does not taint: those were answered, unless the turn continues such an
    answer. Notes never taint: what strangers had put there was approved.
    """
    messages_read = [message for message in prompt if message.role in {"user", "tool"}]
    tainting = user_messages
    if continues_answer:
        tainting = [message for message in messages_read if not is_notes_message(message.text)]
    is_tainted = any(message.images or has_data_block(message.text) for message in tainting)
    return TaintState(is_tainted, [message.text for message in messages_read])


def _strip_opened_url(tool: Tool | None, arguments: str) -> str:
    """The arguments of a call without the URL that it was allowed to open."""
    if tool is None or tool.opens is None:
        return arguments
    return json.dumps({key: value for key, value in json.loads(arguments).items() if key != tool.opens})
