"""The gemma4 parsers of the published preview image: today's, with the defects that people reported.

Pure. The reports describe kinds of defects, not conditions, so their conditions are chosen here: a call in
round brackets leaves an empty turn, and in a stream a canvas that holds more than one thing reaches the
content with all its markup.
"""

import re

from bot.sim.gemma.parser import Delta, ParsedReply, Schemas, StreamParser, parse_reply
from bot.sim.gemma.tokens import SPELLED_OUT_MARK

_ROUND_BRACKET_CALL = re.compile(r"<\|tool_call>call:\w+\(.*", re.DOTALL)
_ONE_CALL = re.compile(r"<\|tool_call>(?:(?!<\|tool_call>).)*<tool_call\|>", re.DOTALL)


class OldStreamParser(StreamParser):
    """Streamed parsing that was written for one token at a time and receives a whole canvas."""

    def feed(self, text: str) -> Delta:
        text = _ROUND_BRACKET_CALL.sub("", text)
        if _is_mixed(text):
            return Delta(content=text.replace(SPELLED_OUT_MARK, ""))
        return super().feed(text)


def parse_reply_old(text: str, schemas: Schemas | None) -> ParsedReply:
    """Parse a reply that is not streamed."""
    return parse_reply(_ROUND_BRACKET_CALL.sub("", text), schemas)


def _is_mixed(text: str) -> bool:
    if "<|tool_call>" in text:
        return not _ONE_CALL.fullmatch(text)
    return "<channel|>" in text and not text.endswith("<channel|>")
