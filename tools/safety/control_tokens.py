"""Finds and breaks the control tokens of the model's chat template. Pure.

Owns the one pattern by which all packages distinguish template markup from words; alone so that callers that
need only this do not load the phrases of `injection`.
"""

import re

ZERO_WIDTH_SPACE = "\u200b"

# Every `<|word>`, `<word|>` and `<|word|>`, not only today's list, so that a token of the next template is
# caught too. The tokens of the last row have no bars: they mark the borders of texts, or of turns in older
# templates.
CONTROL_TOKEN = re.compile(
    r"""<(?:\|["\w/]{1,40}\|?|["\w/]{1,40}\|"""
    r"""|/?(?i:bos|eos|pad|unk|mask|unused\d+|(?:start|end)_of_(?:turn|image)|image_soft_token))>"""
)


def break_control_tokens(text: str) -> str:
    """The text, unchanged to the eye, without control tokens: a zero-width space follows each token's `<`."""
    if "<" not in text:
        return text
    return CONTROL_TOKEN.sub(lambda token: f"<{ZERO_WIDTH_SPACE}{token[0][1:]}", text)
