"""Notices a server that ends every reply after one canvas, whatever is asked for, and says what mends it.
Pure.

Old servers take such a cap from the model's own generation config, newer ones from a flag somebody set.
"""

from bot.domain import CANVAS, Reply

SURE = 3  # replies in a row that ended so
CAPPED = (
    f"The model's replies end after exactly {CANVAS} tokens though more was allowed: the server caps its output. "
    "Start vLLM with --generation-config vllm, and without max_new_tokens in --override-generation-config."
)


class Caps:
    """Hears the replies of one endpoint."""

    def __init__(self) -> None:
        self._so_far = 0

    def sure(self, reply: Reply, allowed: int) -> bool:
        """Whether this reply, which might have had `allowed` tokens, makes it sure that there is a cap; once."""
        counted = reply.usage.completion_tokens
        if counted is None or self._so_far >= SURE:
            return False
        if counted > CANVAS:
            self._so_far = 0
        elif counted == CANVAS < allowed and reply.finish_reason == "length":
            self._so_far += 1
            return self._so_far == SURE
        return False
