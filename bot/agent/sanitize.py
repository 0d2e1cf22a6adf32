"""Text on its way into a prompt or onto a wire: what cannot be sent and the template's markup are taken out.
Pure.

How control tokens look is said once, in tools/safety/control_tokens.py.
"""

import re

from tools.safety.control_tokens import CONTROL_TOKEN, ZERO_WIDTH_SPACE, break_control_tokens

__all__ = ["CONTROL_TOKEN", "ZERO_WIDTH_SPACE", "break_control_tokens", "strip_control_tokens", "to_sendable"]

MAX_PASSES = 8

_UNSENDABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def to_sendable(text: str) -> str:
    """The text as every database and wire takes it: without control characters and halves of characters."""
    # The first check is ten times as fast and settles nearly all texts.
    if text.replace("\n", "").isprintable() or not _UNSENDABLE.search(text):
        return text
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _UNSENDABLE.sub("", whole)


def strip_control_tokens(text: str) -> str:
    """The text with its control tokens taken out; what still looks like one after several passes is
    neutralised.
    """
    for _ in range(MAX_PASSES):
        fewer = CONTROL_TOKEN.sub("", text)
        if fewer == text:
            return text
        text = fewer
    return break_control_tokens(text)
