"""Text of a known length in tokens, the same in every run. Pure."""

import random

_TEXT = (
    "the river runs past old town walls and slow boats carry wood grain salt to market when winter comes "
    "early some people stay near fires tell long tales of storms at sea while others mend nets and wait for "
    "spring"
)
_WORDS = _TEXT.split()


def write_prose(tokens: int, seed: int) -> str:
    """Words of one token each, each after a blank."""
    generator = random.Random(seed)  # noqa: S311 - the same words in every run, no secret
    return "".join(f" {generator.choice(_WORDS)}" for _ in range(max(0, tokens)))
