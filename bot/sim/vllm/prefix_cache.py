"""The simulated prefix cache: which head of a prompt need not be computed again.

Owns its blocks and nothing else. By default sliding-window layers keep only the end of each prompt and the
places where two prompts diverged, so the second prompt that shares a head hits nothing and the third one
does.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from bot.sim.gemma.tokens import CACHE_BLOCK_TOKENS


@dataclass(frozen=True, slots=True)
class CacheLookup:
    """Tokens found in the cache, and tokens newly added."""

    hit_tokens: int
    created_tokens: int


class PrefixCache:
    """Blocks of 32 tokens; the least recently used are evicted first.

    `dense` reuses every block that was ever computed.
    """

    def __init__(self, *, dense: bool = False, capacity: int = 60_000) -> None:
        self._dense = dense
        self._capacity = capacity
        self._blocks: OrderedDict[int, bool] = OrderedDict()
        self.queries = 0
        self.hits = 0

    def admit(self, blocks: Sequence[str], token_count: int, salt: str = "") -> CacheLookup:
        """Look a prompt up, then remember it. `blocks` hold 32 tokens each, except the last."""
        # The last token is always computed, so a block that ends the prompt is never served.
        keys = _chain_keys(blocks[: max(0, token_count - 1) // CACHE_BLOCK_TOKENS], salt)
        shared = next((place for place, key in enumerate(keys) if key not in self._blocks), len(keys))
        cached = next((n for n in range(shared, 0, -1) if self._dense or self._blocks[keys[n - 1]]), 0)
        self._remember(keys)
        for end in (shared, len(keys)):
            if end:
                self._blocks[keys[end - 1]] = True
        self._trim()
        self.queries += token_count
        self.hits += cached * CACHE_BLOCK_TOKENS
        return CacheLookup(cached * CACHE_BLOCK_TOKENS, (len(keys) - cached) * CACHE_BLOCK_TOKENS)

    def extend(self, blocks: Sequence[str], salt: str = "") -> None:
        """Remember a prompt together with its reply: only a dense cache can serve generated tokens again."""
        if self._dense:
            self._remember(_chain_keys(blocks[:-1], salt))
            self._trim()

    def _remember(self, keys: Sequence[int]) -> None:
        # The head is touched last: of a long prompt the tail is forgotten first.
        for key in reversed(keys):
            self._blocks.setdefault(key, False)
            self._blocks.move_to_end(key)

    def _trim(self) -> None:
        while len(self._blocks) > self._capacity:
            self._blocks.popitem(last=False)


def _chain_keys(blocks: Sequence[str], salt: str) -> list[int]:
    key = hash(salt)
    return [key := hash((key, block)) for block in blocks]
