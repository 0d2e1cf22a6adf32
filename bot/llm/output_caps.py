"""Notices a server that ends every reply after one canvas, whatever is asked for, and says what mends it.
Pure.

Old servers take such a cap from the model's own generation config, newer ones from a flag somebody set.
"""

from bot.domain import CANVAS_TOKENS, Reply

CONFIRMING_REPLIES = 3  # replies in a row that ended so
CAP_NOTICE = (
    f"The model's replies end after exactly {CANVAS_TOKENS} tokens though more was allowed: the server caps its output. "
    "Start vLLM with --generation-config vllm, and without max_new_tokens in --override-generation-config."
)


class OutputCapDetector:
    """Hears the replies of one endpoint."""

    def __init__(self) -> None:
        self._capped_replies = 0

    def detect(self, reply: Reply, max_tokens: int) -> bool:
        """Whether this reply, which might have had `allowed` tokens, makes it sure that there is a cap; once."""
        counted = reply.usage.completion_tokens
        if counted is None or self._capped_replies >= CONFIRMING_REPLIES:
            return False
        if counted > CANVAS_TOKENS:
            self._capped_replies = 0
        elif counted == CANVAS_TOKENS < max_tokens and reply.finish_reason == "length":
            self._capped_replies += 1
            return self._capped_replies == CONFIRMING_REPLIES
        return False
