"""Counts tokens of Gemma text by one printed rule; owns the control tokens and their ids.

Pure. Replaces the real tokenizer in the simulated endpoint, so that every count there follows the same rule.
"""

import re
import zlib
from collections.abc import Iterable

COUNTING_RULE = (
    "One token each: a control token; up to six Latin letters with the blank before them; a digit; up to "
    "three"
    " punctuation marks; up to three other characters with the blank before them; a run of line breaks; a "
    "run of"
    " blanks. English prose comes to about four and a half characters a token. An image is 280, or what the"
    " server's flag says."
)
CACHE_BLOCK_TOKENS = 32
IMAGE_MARKER = "<|image|>"
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
    IMAGE_MARKER: 258_880,
}
# A NUL before a control token means the model spelled it with ordinary characters.
SPELLED_OUT_MARK = "\x00"

_CONTROL_REGEX = "|".join(re.escape(name) for name in CONTROL_IDS)
_TOKEN_REGEX = (
    rf"{SPELLED_OUT_MARK}.|{_CONTROL_REGEX}| ?[A-Za-z]{{1,6}}|\d|[!-/:;=>?@\[-`{{-~]{{1,3}}|<"
    r"| ?[^\x00-\x7f]{1,3}|\n+|[^\S\n]+|."
)
_TOKEN_PATTERN = re.compile(_TOKEN_REGEX, re.DOTALL)
_BLOCK_PATTERN = re.compile(f"(?:{_TOKEN_REGEX}){{1,{CACHE_BLOCK_TOKENS}}}", re.DOTALL)
_CONTROL_PATTERN = re.compile(f"(?<!{SPELLED_OUT_MARK})({_CONTROL_REGEX})")

_FIRST_ORDINARY_ID = 512
_ORDINARY_ID_COUNT = 258_000


def tokenize(text: str) -> list[str]:
    """The tokens of `text`, in order; joined they are `text` again."""
    return _TOKEN_PATTERN.findall(text)


def count_tokens(text: str) -> int:
    """The number of tokens of `text`, by `COUNTING_RULE`."""
    return len(_TOKEN_PATTERN.findall(expand_images(text)))


def split_blocks(text: str, image_tokens: int = IMAGE_TOKENS) -> tuple[list[str], int]:
    """`text` cut every 32 tokens, and its token count: the cheap way to both."""
    blocks = _BLOCK_PATTERN.findall(expand_images(text, image_tokens))
    if not blocks:
        return [], 0
    return blocks, CACHE_BLOCK_TOKENS * (len(blocks) - 1) + len(_TOKEN_PATTERN.findall(blocks[-1]))


def expand_images(text: str, image_tokens: int = IMAGE_TOKENS) -> str:
    """`text` with every image expanded to its length."""
    return text.replace(IMAGE_MARKER, IMAGE_MARKER * image_tokens)


def split_control_tokens(text: str) -> Iterable[tuple[str, bool]]:
    """The text as (piece, is a control token), without empty pieces; spelled-out tokens are plain text."""
    for place, piece in enumerate(_CONTROL_PATTERN.split(text)):
        if piece:
            yield (piece, True) if place % 2 else (piece.replace(SPELLED_OUT_MARK, ""), False)


def token_id(token: str) -> int:
    """The real id of a control token; any other token gets a stable invented one."""
    control_id = CONTROL_IDS.get(token)
    if control_id is not None:
        return control_id
    return _FIRST_ORDINARY_ID + zlib.crc32(token.encode()) % _ORDINARY_ID_COUNT
