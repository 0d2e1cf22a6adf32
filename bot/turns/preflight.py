"""What the endpoint is asked before a turn begins: the length of its prompt, and whether to think.

A prompt is counted only near its limit. What the endpoint does not answer stays open; the turn begins all the
same. The judgement is a row of the ledger, a count is not: nothing is generated for it.
"""

from collections.abc import Sequence

from bot.llm.client import ModelClient
from bot.llm.heavy_work import HEAVY_WORK, describe_work
from bot.turns.recorded_reads import ReadSubject, RecordedReads
from bot.turns.turn_request import PreflightRequest, PreflightResult


class Preflight:
    """Asks the endpoint of `model`; `reads` judge whether work is heavy."""

    def __init__(self, model: ModelClient, reads: RecordedReads) -> None:
        self._model = model
        self._reads = reads

    async def load_client(self) -> None:
        """Load what model calls need; that takes time once."""
        await self._model.connect()

    async def run(self, request: PreflightRequest, texts: Sequence[str]) -> PreflightResult:
        """The endpoint's answers to the request; `texts` are the messages the turn is to answer."""
        prompt_tokens: int | None = None
        if request.needs_token_count:
            prompt_tokens = await self._model.count_tokens(
                request.prompt, request.toolbox.definitions, thinking=request.thinking
            )
        if not request.needs_heavy_chance:
            return PreflightResult(prompt_tokens)
        subject = ReadSubject(
            request.chat,
            "decision",
            (HEAVY_WORK,),
            describe_work(texts, request.toolbox.definitions),
            frozenset({"text"}),
            len(request.toolbox.offered_names),
        )
        call, reading = await self._reads.read(subject)
        chance = reading.find_chance(HEAVY_WORK) if reading else None
        return PreflightResult(prompt_tokens, chance, call)
