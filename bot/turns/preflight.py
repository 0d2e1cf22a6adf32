"""What the endpoint is asked before a turn begins: how long a prompt near the limit is, and whether to think.

Whatever it does not answer stays open; a turn begins all the same. The reading is a row of the ledger, a
count is none: nothing is generated for it.
"""

import time
from collections.abc import Awaitable, Callable, Sequence

from bot.agent import prompt as prompting
from bot.agent.toolbox import Toolbox
from bot.db.conversations.calls import Closing, NewCall
from bot.db.engine import Database
from bot.domain import CallTimes, Message, Reply, Usage
from bot.llm import server_api as server
from bot.llm.typed_reads import Decision, Decisions
from bot.turns.call_ledger import Book
from bot.turns.start import Told, Wanting

Count = Callable[[Sequence[Message], Toolbox, bool], Awaitable[int | None]]
"""Tokens of a prompt with these tools, thinking or not; None if the endpoint does not say."""


def counting(url: str, api_key: str | None) -> Count:
    """Counts prompts at the endpoint of this address."""

    async def count(messages: Sequence[Message], toolbox: Toolbox, thinking: bool) -> int | None:
        body = {
            "messages": prompting.to_openai(messages),
            "chat_template_kwargs": {"enable_thinking": thinking},
        }
        tools = {"tools": toolbox.definitions} if toolbox.definitions else {}
        return await server.tokenize(url, api_key, body | tools)

    return count


class Inquiry:
    """Asks. `endpoint` and `model` are the ledger's names; an endpoint that cannot read is not asked to
    again.
    """

    def __init__(
        self,
        database: Database,
        count: Count,
        decisions: Decisions,
        *,
        endpoint: str,
        model: Callable[[], str],
    ) -> None:
        self._book = Book(database)
        self._count = count
        self._decisions = decisions
        self._endpoint = endpoint
        self._model = model

    async def __call__(self, wanting: Wanting, texts: Sequence[str]) -> Told:
        """What the endpoint says to what is wanted."""
        if wanting.count:
            counted = await self._count(wanting.prompt, wanting.toolbox, wanting.thinking)
        else:
            counted = None
        reads = wanting.read and not self._decisions.lacking
        call, chance = await self._chance(wanting, texts) if reads else (None, None)
        return Told(counted, chance, call)

    async def _chance(self, wanting: Wanting, texts: Sequence[str]) -> tuple[int, float | None]:
        created = time.time()
        call = await self._book.open(self._row(wanting, texts))
        read = await self._decisions.decide(texts, wanting.toolbox.definitions)
        await self._book.close(_closing(call, read, created))
        return call, read.chance if read else None

    def _row(self, wanting: Wanting, texts: Sequence[str]) -> NewCall:
        return NewCall(
            turn=None,
            step=0,
            purpose="decision",
            again=None,
            endpoint=self._endpoint,
            model=self._model(),
            thinking=False,
            tools_offered=len(wanting.toolbox.offered),
            chars_system=0,
            chars_tools=0,
            chars_history=sum(map(len, texts)),
        )


def _closing(call: int, read: Decision | None, created: float) -> Closing:
    if read is None:
        return Closing(call, None, "failed", "the endpoint gave no reading")
    usage = Usage(read.input_tokens, None, read.output_tokens)
    reply = Reply(f"{read.chance:.2f}", "", (), "stop", usage, CallTimes(created, ended=time.time()))
    return Closing(call, reply, "ok")
