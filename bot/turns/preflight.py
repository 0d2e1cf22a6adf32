"""What the endpoint is asked before a turn begins: the length of its prompt, and whether to think.

A prompt is counted only near its limit. What the endpoint does not answer stays open; the turn begins all the
same. The judgement is a row of the ledger, a count is not: nothing is generated for it.
"""

from collections.abc import Sequence

from bot.llm.client import QUICK_SECONDS, ModelClient
from bot.llm.heavy_work import HEAVY_WORK, describe_work
from bot.llm.read_gains import CLEAR, READ_SECONDS
from bot.llm.search_questions import ask_for_tool, list_likely_tools
from bot.llm.typed_reads import TypedQuestion
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
        asks_heavy = request.needs_heavy_chance and self._reads.find_clearness("thinking") > -CLEAR
        questions: list[TypedQuestion] = [HEAVY_WORK] if asks_heavy else []
        if request.tool_rivals:
            questions.append(ask_for_tool({tool.name: tool.description for tool in request.tool_rivals}))
        if not questions:
            return PreflightResult(prompt_tokens)
        subject = ReadSubject(
            request.chat,
            "decision",
            questions,
            describe_work(texts, request.toolbox.definitions),
            frozenset({"text"}),
            len(request.toolbox.offered_names),
        )
        timeout_seconds = QUICK_SECONDS if asks_heavy else READ_SECONDS
        call, reading = await self._reads.read(subject, timeout_seconds=timeout_seconds)
        chance = reading.find_chance(HEAVY_WORK) if reading else None
        return PreflightResult(prompt_tokens, chance, call, list_likely_tools(reading))
