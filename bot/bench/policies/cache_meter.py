"""What prefix caches of several kinds would compute of the same prompts; the least is the oracle's.

Pure. Prompts are text, counted in tokens by the simulator's rule.
"""

from bisect import bisect_left, bisect_right
from itertools import accumulate

from bot.sim.gemma.tokens import CACHE_BLOCK_TOKENS, split_blocks, tokenize
from bot.sim.vllm.prefix_cache import PrefixCache


class CacheMeter:
    """Counts what caches of several kinds would compute of the same prompts, from an empty start."""

    def __init__(self) -> None:
        self.calls = self.prompt = self.computed = self.dense_computed = 0
        self.least = self.least_to_the_token = 0
        self._cache = PrefixCache()
        self._dense_cache = PrefixCache(dense=True)
        self._prompts: list[str] = []  # sorted: the one that shares most with a prompt is its neighbour

    def add(self, prompt_text: str, output_text: str, *, is_counted: bool = True) -> int:
        """Let the caches compute a prompt, and keep the output that follows it; returns its tokens."""
        blocks, tokens = split_blocks(prompt_text)
        computed = tokens - self._cache.admit(blocks, tokens).hit_tokens
        dense_computed = tokens - self._dense_cache.admit(blocks, tokens).hit_tokens
        self._dense_cache.extend(split_blocks(prompt_text + output_text)[0])
        # The last token is always computed.
        shared = min(self._count_shared_tokens(prompt_text), tokens - 1)
        if is_counted:
            self.calls += 1
            self.prompt += tokens
            self.computed += computed
            self.dense_computed += dense_computed
            self.least += tokens - shared // CACHE_BLOCK_TOKENS * CACHE_BLOCK_TOKENS
            self.least_to_the_token += tokens - shared
        return tokens

    def _count_shared_tokens(self, prompt_text: str) -> int:
        """Whole tokens of the longest beginning that an earlier prompt has, too; remembers the prompt."""
        place = bisect_left(self._prompts, prompt_text)
        neighbours = self._prompts[max(0, place - 1) : place + 1]
        shared_chars = max((_count_common_chars(prompt_text, other) for other in neighbours), default=0)
        self._prompts.insert(place, prompt_text)
        token_ends = list(accumulate(map(len, tokenize(prompt_text))))
        return bisect_right(token_ends, shared_chars)


def _count_common_chars(first: str, second: str) -> int:
    shared = 0
    end = min(len(first), len(second))
    while shared < end:
        middle = (shared + end + 1) // 2
        if first[shared:middle] == second[shared:middle]:
            shared = middle
        else:
            end = middle - 1
    return shared
