"""What the endpoint is asked before a turn begins: the length of its prompt, and whether to think.

A prompt is counted only near its limit. What the endpoint does not answer stays open; the turn begins all the
same. The judgement is a row of the ledger, a count is not: nothing is generated for it.
"""

from collections.abc import Callable, Sequence

from bot.db.conversations.calls import NewCall
from bot.llm.client import ModelClient
from bot.llm.heavy_work import HEAVY_WORK, describe_work
from bot.llm.typed_reads import TypedReader
from bot.turns.call_ledger import CallLedger
from bot.turns.turn_request import PreflightRequest, PreflightResult


class Preflight:
    """Asks the endpoint; one that cannot judge whether work is heavy is not asked to again.

    `endpoint_name`, `model_name`: as the ledger names them.
    """

    def __init__(
        self,
        ledger: CallLedger,
        model: ModelClient,
        reader: TypedReader,
        *,
        endpoint_name: str,
        model_name: Callable[[], str],
    ) -> None:
        self._ledger = ledger
        self._model = model
        self._reader = reader
        self._endpoint_name = endpoint_name
        self._model_name = model_name

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
        if not request.needs_heavy_chance or self._reader.is_supported is False:
            return PreflightResult(prompt_tokens)
        call, chance = await self._read_heavy_chance(request, texts)
        return PreflightResult(prompt_tokens, chance, call)

    async def _read_heavy_chance(
        self, request: PreflightRequest, texts: Sequence[str]
    ) -> tuple[int, float | None]:
        """The ledger's row of the call, and the chance; None: the endpoint gave none."""
        state = describe_work(texts, request.toolbox.definitions)
        new_call = self._build_row(request, texts)
        call, reading = await self._ledger.read_once(new_call, self._reader, HEAVY_WORK, state)
        return call, reading.chance if reading else None

    def _build_row(self, request: PreflightRequest, texts: Sequence[str]) -> NewCall:
        return NewCall(
            turn=None,
            step=0,
            purpose="decision",
            again=None,
            endpoint=self._endpoint_name,
            model=self._model_name(),
            thinking=False,
            tools_offered=len(request.toolbox.offered_names),
            chars_system=0,
            chars_tools=0,
            chars_history=sum(map(len, texts)),
        )
