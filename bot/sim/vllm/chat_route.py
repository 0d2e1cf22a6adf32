"""The chat route of the simulated server: its refusals and its answer.

Owns nothing; calls the engine.
"""

import secrets
from time import monotonic, time

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from bot.sim.gemma.template import TemplateInput, render_prompt
from bot.sim.gemma.tokens import split_blocks
from bot.sim.vllm.delivery import CompletionResponse
from bot.sim.vllm.engine import Engine
from bot.sim.vllm.errors import Json, ServerInfo, VllmRefusal, parse_body
from bot.sim.vllm.images import image_digests, tag_image_blocks
from bot.sim.vllm.request import EngineJob, RequestRecord
from bot.sim.vllm.response import CompletionEncoder, ReplyOptions
from bot.sim.vllm.script import ChatRequest
from bot.sim.vllm.sse import CompletionHead, new_completion_id
from bot.sim.vllm.tokenize import to_template_input
from bot.sim.vllm.validation import check_chat, check_length, check_sampling, requested_max_tokens


class ChatRoute:
    """The chat route of one server."""

    response_class: type[CompletionResponse] = CompletionResponse

    def __init__(self, engine: Engine, server_info: ServerInfo) -> None:
        self.engine = engine
        self.server_info = server_info
        self._fingerprint = f"vllm-{server_info.profile.version}-{secrets.token_hex(4)}"

    async def answer(self, http_request: HttpRequest) -> Response:
        """The response, once everything that can fail before the engine works is checked.

        Raises VllmRefusal.
        """
        headers = {key.lower(): value for key, value in http_request.headers.items()}
        log = self.open_record(headers)
        try:
            log.body = parse_body(await http_request.body(), headers.get("content-type", ""))
            job = self.admit(log)
        except VllmRefusal as refusal:
            log.status = refusal.status
            log.finished_at = monotonic()
            self.engine.on_change()
            raise
        return self.respond(job)

    def open_record(self, headers: dict[str, str]) -> RequestRecord:
        """The record of a request that has just arrived."""
        return RequestRecord({}, headers, monotonic())

    def admit(self, log: RequestRecord) -> EngineJob:
        """The job that a request is; raises VllmRefusal."""
        info = self.server_info
        self.check_body(log.body)
        conversation = self.read_conversation(log.body)
        log.prompt = render_prompt(conversation)
        log.thinking = conversation.thinking
        blocks, log.prompt_tokens = split_blocks(log.prompt, info.profile.image_tokens)
        digests = image_digests(log.body)
        check_length(log.prompt_tokens, info)
        check_sampling(log.body, info)
        room = info.context_tokens - log.prompt_tokens
        limit = min(requested_max_tokens(log.body) or room, room, info.profile.output_cap or room)
        chat = ChatRequest(
            messages=conversation.messages,
            tools=conversation.tools,
            thinking=conversation.thinking,
            prompt=log.prompt,
            max_tokens=limit,
            body=log.body,
            is_continuation=conversation.continue_last,
        )
        tagged = tag_image_blocks(blocks, digests, info.profile.image_tokens)
        return EngineJob(log, chat, tagged, _priority(log), image_digests=digests)

    def check_body(self, body: Json) -> None:
        """Refuse what the server does before it looks at the conversation."""
        check_chat(body, self.server_info)

    def read_conversation(self, body: Json) -> TemplateInput:
        """The part of a request that the template sees."""
        return to_template_input(body, self.server_info.profile)

    def respond(self, job: EngineJob) -> Response:
        """The response to an accepted request."""
        request_id = new_completion_id(job.log.headers.get("x-request-id"))
        head = CompletionHead(request_id, int(time()), self.server_info.model, self._fingerprint)
        return self.response_class(self.engine, job, self.build_encoder(job, head))

    def build_encoder(self, job: EngineJob, head: CompletionHead) -> CompletionEncoder:
        """The encoder of the answer."""
        profile = self.server_info.profile
        return CompletionEncoder(job, head, ReplyOptions.from_body(job.log.body, profile), profile)


def _priority(log: RequestRecord) -> int:
    return int(log.headers.get("x-vllm-priority") or log.body.get("priority") or 0)
