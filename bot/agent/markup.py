"""The control tokens of the model's chat template: how they look, taking their power, taking them away. Pure.

Owns the one pattern by which the rooms above tell template markup from words.
"""

import re

ZERO_WIDTH_SPACE = "\u200b"

# Every `<|word>`, `<word|>` and `<|word|>`, not only today's list, so that a token of the next template is caught too.
# The last row has no bars; those tokens stand for the border of a text or of an older template's turn.
CONTROL = re.compile(
    r"""<(?:\|["\w/]{1,40}\|?|["\w/]{1,40}\|"""
    r"""|/?(?i:bos|eos|pad|unk|mask|unused\d+|(?:start|end)_of_(?:turn|image)|image_soft_token))>"""
)
PASSES = 8

_UNSENDABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def sendable(text: str) -> str:
    """The text as every database and wire takes it: without control characters and halves of characters."""
    # The first check is ten times as fast and settles nearly all texts.
    if text.replace("\n", "").isprintable() or not _UNSENDABLE.search(text):
        return text
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _UNSENDABLE.sub("", whole)


def neutralise(text: str) -> str:
    """The same text to the eye, in which no control token is left: a zero-width space stands after each `<`."""
    if "<" not in text:
        return text
    return CONTROL.sub(lambda token: f"<{ZERO_WIDTH_SPACE}{token[0][1:]}", text)


def without_markup(text: str) -> str:
    """The text with its control tokens taken out; what still looks like one after several passes is neutralised."""
    for _ in range(PASSES):
        fewer = CONTROL.sub("", text)
        if fewer == text:
            return text
        text = fewer
    return neutralise(text)
