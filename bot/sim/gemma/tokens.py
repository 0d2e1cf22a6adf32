"""Counts tokens of Gemma text by one printed rule; owns the control tokens and their ids.

Pure. Stands in for the real tokenizer in the simulated endpoint, so that every count there follows the same
rule.
"""

import re
import zlib
from collections.abc import Iterable

COUNTING_RULE = (
    "One token each: a control token; up to six Latin letters with the blank before them; a digit; up to three"
    " punctuation marks; up to three other characters with the blank before them; a run of line breaks; a run of"
    " blanks. English prose comes to about four and a half characters a token. An image is 280."
)
BLOCK = 32
IMAGE = "<|image|>"
IMAGE_TOKENS = 280

CONTROL_IDS = {
    "<pad>": 0,
    "<eos>": 1,
    "<bos>": 2,
    "<|tool>": 46,
    "<tool|>": 47,
    "<|tool_call>": 48,
    "<tool_call|>": 49,
    "<|tool_response>": 50,
    "<tool_response|>": 51,
    '<|"|>': 52,
    "<|think|>": 98,
    "<|channel>": 100,
    "<channel|>": 101,
    "<|turn>": 105,
    "<turn|>": 106,
    IMAGE: 258_880,
}
# A NUL before a control token means the model spelled it with ordinary characters.
SPELLED = "\x00"

_CONTROL = "|".join(re.escape(name) for name in CONTROL_IDS)
_TOKEN = rf"{SPELLED}.|{_CONTROL}| ?[A-Za-z]{{1,6}}|\d|[!-/:;=>?@\[-`{{-~]{{1,3}}|<| ?[^\x00-\x7f]{{1,3}}|\n+|[^\S\n]+|."
_TOKENS = re.compile(_TOKEN, re.DOTALL)
_BLOCKS = re.compile(f"(?:{_TOKEN}){{1,{BLOCK}}}", re.DOTALL)
_CONTROLS = re.compile(f"(?<!{SPELLED})({_CONTROL})")

_FIRST_ORDINARY_ID = 512
_ORDINARY_IDS = 258_000


def tokenize(text: str) -> list[str]:
    """The tokens of `text`, in order; joined they are `text` again."""
    return _TOKENS.findall(text)


def count_tokens(text: str) -> int:
    """How many tokens `text` is, by `COUNTING_RULE`."""
    return len(_TOKENS.findall(spread(text)))


def blocks_of(text: str) -> tuple[list[str], int]:
    """`text` cut every 32 tokens, and its count of tokens: the cheap way to both."""
    blocks = _BLOCKS.findall(spread(text))
    if not blocks:
        return [], 0
    return blocks, BLOCK * (len(blocks) - 1) + len(_TOKENS.findall(blocks[-1]))


def spread(text: str) -> str:
    """`text` with every image as long as it is."""
    return text.replace(IMAGE, IMAGE * IMAGE_TOKENS)


def segments(text: str) -> Iterable[tuple[str, bool]]:
    """`text` as (piece, is a control token), without empty pieces; spelled-out control tokens are plain text."""
    for place, piece in enumerate(_CONTROLS.split(text)):
        if piece:
            yield (piece, True) if place % 2 else (piece.replace(SPELLED, ""), False)


def token_id(token: str) -> int:
    """The real id of a control token; any other token gets a stable made-up one."""
    known = CONTROL_IDS.get(token)
    if known is not None:
        return known
    return _FIRST_ORDINARY_ID + zlib.crc32(token.encode()) % _ORDINARY_IDS
