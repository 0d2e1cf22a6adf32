"""The chat route with faults, and as other servers and releases have it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import monotonic

from starlette.types import Receive, Scope, Send

from bot.sim.gemma.template import TemplateInput
from bot.sim.vllm.chat_route import ChatRoute
from bot.sim.vllm.delivery import CompletionResponse, body_message
from bot.sim.vllm.engine import Engine
from bot.sim.vllm.errors import Json, ServerInfo, VllmRefusal
from bot.sim.vllm.request import EngineJob, RequestRecord
from bot.sim.vllm.response import CompletionEncoder, ReplyOptions
from bot.sim.vllm.sse import DONE, CompletionHead, format_event
from tests.support.endpoint.engine import ConnectionCut, EngineDied, FaultyEngine, find_record
from tests.support.endpoint.faults import EndpointFaultQueue, FaultyRecord
from tests.support.endpoint.gate import CUT_SCOPE_KEY
from tests.support.endpoint.hosted_api import HostedCompletionEncoder, check_hosted_fields
from tests.support.endpoint.other_servers import OtherServerEncoder, find_switch
from tests.support.endpoint.preview import PreviewEncoder
from tests.support.endpoint.profiles import ServerProfile
from tests.support.endpoint.refusals import (
    ENGINE_BUSY,
    ENGINE_DEAD,
    NO_PICTURES_500,
    NO_TOOLS_500,
    QUEUE_FULL_EVENT,
    UNAUTHORIZED,
)


class FaultyResponse(CompletionResponse):
    """A response that may end in an error or in a cut connection."""

    def __init__(self, engine: Engine, job: EngineJob, encoder: CompletionEncoder) -> None:
        super().__init__(engine, job, encoder)
        self._is_cut = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await super().__call__(scope, receive, send)
        if self._is_cut:
            await scope[CUT_SCOPE_KEY]()

    async def serve(self, send: Send) -> None:
        """Send the response; cancelled when the client is gone."""
        try:
            await super().serve(send)
        except ConnectionCut:
            self._is_cut = True

    async def send_stream(self, send: Send) -> None:
        """Send a stream of events."""
        try:
            await super().send_stream(send)
        except EngineDied:
            await send(body_message(format_event(ENGINE_DEAD.body) + DONE))

    async def send_whole(self, send: Send) -> None:
        """Send an answer that is not streamed."""
        try:
            await super().send_whole(send)
        except EngineDied:
            await self.send_json(send, ENGINE_DEAD.status, ENGINE_DEAD.body)


class FaultyChatRoute(ChatRoute):
    """The chat route of a server of this profile; each request takes the next fault that applies to it."""

    response_class = FaultyResponse

    def __init__(
        self,
        engine: FaultyEngine,
        server_info: ServerInfo,
        profile: ServerProfile,
        faults: EndpointFaultQueue,
        log_request: Callable[[RequestRecord], None],
    ) -> None:
        super().__init__(engine, server_info)
        self._faulty_engine = engine
        self._profile = profile
        self._faults = faults
        self._log_request = log_request

    def open_record(self, headers: dict[str, str]) -> FaultyRecord:
        """The record of a request that has just arrived, with its fault; it is logged."""
        log = FaultyRecord({}, headers, monotonic(), fault=self._faults.take())
        self._log_request(log)
        return log

    def admit(self, log: RequestRecord) -> EngineJob:
        """The job that a request is; raises VllmRefusal, also by its fault or in place of a dead engine."""
        assert isinstance(log, FaultyRecord)
        if log.fault_kind == "unauthorized":
            raise UNAUTHORIZED
        if log.fault_kind == "crash" or self._kills_engine(log):
            self._faulty_engine.die()
        if self._faulty_engine.died_at is not None:
            raise ENGINE_DEAD
        job = super().admit(log)
        if self._is_full:
            raise self._reject(log)
        if log.fault_kind == "busy":
            self.engine.metrics.rejected += 1
            raise ENGINE_BUSY
        return job

    @property
    def _is_full(self) -> bool:
        """Whether the queue limit refuses the next request; running requests count, too."""
        limit = self._profile.max_queued
        return limit is not None and self.engine.seats.running + self.engine.seats.waiting >= limit

    def _reject(self, log: RequestRecord) -> VllmRefusal:
        """What a request over the queue limit gets: of streamed ones every second is told in its stream.

        vLLM checks the limit as the stream begins, so there it is chance.
        """
        self.engine.metrics.rejected += 1
        if log.body.get("stream") and self.engine.metrics.rejected % 2 == 0:
            return QUEUE_FULL_EVENT
        return ENGINE_BUSY

    def _kills_engine(self, log: RequestRecord) -> bool:
        """Whether the request asks for the probabilities of its prompt, which kills the preview image."""
        return self._profile.old_parser and log.body.get("prompt_logprobs") is not None

    def check_body(self, body: Json) -> None:
        """Refuse what the server does before it looks at the conversation."""
        if self._profile.refuses_with_500:
            self._check_as_llama_cpp(body)
        super().check_body(body)
        if self._profile.hosted:
            check_hosted_fields(body)

    def _check_as_llama_cpp(self, body: Json) -> None:
        if not self._profile.tool_parser and body.get("tools"):
            raise NO_TOOLS_500
        contents = [message["content"] for message in body["messages"] if message.get("content")]
        parts = [part for content in contents if isinstance(content, list) for part in content]
        if not self._profile.pictures and any(part.get("type") == "image_url" for part in parts):
            raise NO_PICTURES_500

    def read_conversation(self, body: Json) -> TemplateInput:
        """The part of a request that the template sees; others than vLLM do not continue a message."""
        if self._profile.server is None:
            return super().read_conversation(body)
        switch = find_switch(body, self._profile.server)
        return super().read_conversation(
            {**body, "chat_template_kwargs": switch, "continue_final_message": False}
        )

    def build_encoder(self, job: EngineJob, head: CompletionHead) -> CompletionEncoder:
        """The encoder of the answer."""
        options = ReplyOptions.from_body(job.log.body, self._profile)
        if find_record(job).fault_kind == "no_usage":
            options = replace(options, include_usage=False, include_running_usage=False)
        if self._profile.server is not None:
            make: Callable[..., CompletionEncoder] = partial(OtherServerEncoder, self._profile.server)
        elif self._profile.hosted:
            make = HostedCompletionEncoder
        elif self._profile.old_parser:
            make = PreviewEncoder
        else:
            make = CompletionEncoder
        return make(job, head, options, self._profile)
