"""The control tokens of the model's chat template: how they look, and how they lose their power. Pure.

Owns the one pattern by which this room, and the rooms above, tell template markup from words.
"""

import re

ZERO_WIDTH_SPACE = "\u200b"

# Every `<|word>`, `<word|>` and `<|word|>`, not only today's list, so that a token of the next template is
# caught too. The last row has no bars; those tokens stand for the border of a text or of an older template's
# turn.
CONTROL_TOKEN = re.compile(
    r"""<(?:\|["\w/]{1,40}\|?|["\w/]{1,40}\|"""
    r"""|/?(?i:bos|eos|pad|unk|mask|unused\d+|(?:start|end)_of_(?:turn|image)|image_soft_token))>"""
)


def break_control_tokens(text: str) -> str:
    """The same text to the eye, in which no control token is left: a zero-width space stands after each `<`."""
    if "<" not in text:
        return text
    return CONTROL_TOKEN.sub(lambda token: f"<{ZERO_WIDTH_SPACE}{token[0][1:]}", text)
