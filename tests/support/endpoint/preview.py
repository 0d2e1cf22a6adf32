"""The gemma4 parsers of the published preview image: today's, with the defects that people reported.

Pure. The reports describe kinds of defects, not conditions, so their conditions are chosen here: a call in
round brackets leaves an empty turn, and in a stream a canvas that holds more than one thing reaches the
content with all its markup.
"""

import re

from bot.sim.gemma.parser import Delta, StreamParser
from bot.sim.gemma.tokens import SPELLED_OUT_MARK
from bot.sim.vllm.response import CompletionEncoder
from bot.sim.vllm.sse import Json

_ROUND_BRACKET_CALL = re.compile(r"<\|tool_call>call:\w+\(.*", re.DOTALL)
_ONE_CALL = re.compile(r"<\|tool_call>(?:(?!<\|tool_call>).)*<tool_call\|>", re.DOTALL)


class OldStreamParser(StreamParser):
    """Streamed parsing that was written for one token at a time and receives a whole canvas."""

    def feed(self, text: str) -> Delta:
        text = _ROUND_BRACKET_CALL.sub("", text)
        if _is_mixed(text):
            return Delta(content=text.replace(SPELLED_OUT_MARK, ""))
        return super().feed(text)


class PreviewEncoder(CompletionEncoder):
    """An answer as the old parsers make it; what is not streamed does not tell that a call was cut."""

    parser_class = OldStreamParser

    def encode_whole(self, text: str) -> Json:
        """The body of an answer that is not streamed."""
        return super().encode_whole(_ROUND_BRACKET_CALL.sub("", text))

    def find_finish_reason(self, *, has_calls: bool) -> str:
        """Why the reply ended."""
        finish = super().find_finish_reason(has_calls=has_calls)
        hides_the_cut = has_calls and not self.options.streamed and not self.options.names_tool
        if finish == "length" and hides_the_cut:
            finish = "tool_calls"
            self.job.log.finish_reason = finish
        return finish


def _is_mixed(text: str) -> bool:
    if "<|tool_call>" in text:
        return not _ONE_CALL.fullmatch(text)
    return "<channel|>" in text and not text.endswith("<channel|>")
