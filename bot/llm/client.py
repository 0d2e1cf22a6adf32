"""Calls one endpoint: seats, timing, and the connection that is opened when it is first needed.

The OpenAI client behind the connection takes longer to import than all else together, so it is imported in
a thread: soon after the start (`connect`), or by the first call.
"""

import asyncio
import functools
import gc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from bot.domain import Message, ModelRequest, Reply
from bot.llm.dialect import VLLM, Dialect, write_messages, write_tools
from bot.llm.endpoint_config import SILENCE_SECONDS, EndpointConfig, RouteAnswer, SettingNames
from bot.llm.seats import Seats
from bot.llm.server_api import find_server_root
from bot.llm.stream import StreamAccumulator, make_epoch_clock
from tools.threads import run_in_thread

if TYPE_CHECKING:
    from bot.llm.connection import EndpointConnection

MAX_CHARS_PER_TOKEN = 16
QUICK_SECONDS = 2.0  # that a route may take while a user waits for an answer


class ModelClient:
    """A LanguageModel: one endpoint, one model, `seats` shared by all calls.

    `dialect` says what the endpoint understands; nothing else is sent. Without a `model` it is the first one
    the endpoint lists, fetched before the first call.
    """

    setting_names: ClassVar[SettingNames] = SettingNames()

    def __init__(
        self,
        url: str,
        model: str | None,
        seats: Seats,
        *,
        dialect: Dialect = VLLM,
        api_key: str | None = None,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self._seats = seats
        self._config = EndpointConfig(url, model, api_key, dialect, silence_seconds, self.setting_names)
        self._connection: EndpointConnection | None = None
        self._connecting = asyncio.Lock()

    @property
    def name(self) -> str:
        """The model's name at the endpoint; `unknown` until it was fetched."""
        model = self._connection.model if self._connection else self._config.model
        return model or "unknown"

    @property
    def dialect(self) -> Dialect:
        """What the endpoint understands, as far as it is known."""
        return self._connection.dialect if self._connection else self._config.dialect

    @property
    def has_free_seat(self) -> bool:
        """Whether a user's call would get a seat at once."""
        return self._seats.has_free_seat

    @property
    def seats(self) -> Seats:
        """The seats of all its calls."""
        return self._seats

    async def connect(self) -> "EndpointConnection":
        """Return the connection; the first time, import the OpenAI client in a thread and build it there."""
        async with self._connecting:
            if self._connection is None:
                self._connection = await run_in_thread(_build_connection, self._config)
            return self._connection

    async def open_connection(self) -> None:
        """Ask for the models once, so that the first call does not pay for the connection.

        A failure is left to that call.
        """
        connection = await self.connect()
        await connection.warm_up()

    def queue_position(self, lane: str) -> int | None:
        """How many calls get a seat before this lane's; None if it does not wait."""
        return self._seats.queue_position(lane)

    async def call(
        self,
        request: ModelRequest,
        on_block: Callable[[str], None],
        on_seat: Callable[[], None],
        on_cut: Callable[[Reply], None] | None = None,
    ) -> Reply:
        """Call the model, as `bot.domain.LanguageModel.call` describes it."""
        max_chars = request.max_tokens * MAX_CHARS_PER_TOKEN
        accumulator = StreamAccumulator(make_epoch_clock(), max_chars)
        try:
            connection = self._connection or await self.connect()
            async with self._seats.hold(request.lane, request.priority):
                accumulator.mark_seat()
                on_seat()
                return await connection.read_reply(request, accumulator, on_block)
        except asyncio.CancelledError:
            if on_cut is not None:
                on_cut(accumulator.build_reply(is_ended=False))
            raise

    async def count_tokens(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, thinking: bool
    ) -> int | None:
        """The exact number of tokens of a prompt with the definitions of these tools.

        None where the route is missing, fails, or takes longer than QUICK_SECONDS.
        """
        url = f"{find_server_root(self._config.url)}/tokenize"
        body: dict[str, Any] = {
            "messages": write_messages(messages),
            "chat_template_kwargs": {"enable_thinking": thinking},
        }
        if tools:
            body["tools"] = write_tools(tools)
        answer = await self.ask(url, body, timeout_seconds=QUICK_SECONDS)
        count = answer.body.get("count")
        if isinstance(count, int) and not isinstance(count, bool) and count > 0:
            return count
        return None

    async def ask(
        self, url: str, body: Mapping[str, Any], *, timeout_seconds: float, with_model: bool = False
    ) -> RouteAnswer:
        """Post to a route, at an address or a path below `/v1`, without a seat, for it takes a moment.

        It is asked on the connection that the turn's call uses next. The answer is empty where the endpoint
        gives none within `timeout_seconds`. `with_model`: the body names the model.
        """
        connection = self._connection or await self.connect()
        try:
            async with asyncio.timeout(timeout_seconds):
                return await connection.ask(url, body, with_model=with_model)
        except TimeoutError:
            return RouteAnswer()

    async def close(self) -> None:
        """Close all connections."""
        if self._connection is not None:
            await self._connection.close()


def _build_connection(config: EndpointConfig) -> "EndpointConnection":
    return import_connection_class()(config)


@functools.cache
def import_connection_class() -> type["EndpointConnection"]:
    """Half a second, which no first poll should wait for."""
    gc.disable()  # what is imported stays: to search it for garbage costs a tenth of that
    try:
        from bot.llm.connection import EndpointConnection
    finally:
        gc.freeze()
        gc.enable()
    return EndpointConnection
