"""Other servers in vLLM's place: what their answers and requests have otherwise.

Pure. From their sources, as bot/docs/servers.md names them; none of them was run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bot.sim.vllm.request import Canvas
from bot.sim.vllm.response import CompletionEncoder
from bot.sim.vllm.sse import Json

OtherServer = Literal["mlx-vlm", "mistral.rs", "llama.cpp", "SGLang"]


@dataclass(frozen=True, slots=True)
class ServerTraits:
    """What a server has otherwise.

    owner: of its models, as it lists them; None: it names none.
    reasoning_field: under which name thoughts come.
    takes_template_arguments: thinking is switched by them; else by a field of the request.
    has_usage_chunk: usage has a chunk of its own at the end; else it is in the one with the finish reason.
    numbers_calls: the calls of a chunk have an index.
    """

    owner: str | None
    reasoning_field: str
    takes_template_arguments: bool
    has_usage_chunk: bool
    numbers_calls: bool = True


SERVERS: Mapping[OtherServer, ServerTraits] = {
    "mlx-vlm": ServerTraits(None, "reasoning", False, False, numbers_calls=False),
    "mistral.rs": ServerTraits("local", "reasoning_content", False, False),
    "llama.cpp": ServerTraits("llamacpp", "reasoning_content", True, True),
    "SGLang": ServerTraits("sglang", "reasoning_content", True, True),
}
_TOP_FIELDS = ("id", "object", "created", "model")
_CHOICE_FIELDS = ("index", "finish_reason")
_MESSAGE_FIELDS = ("role", "content", "tool_calls")


def find_switch(body: Json, server: OtherServer) -> Json:
    """The arguments of the template that the server takes from a request."""
    if SERVERS[server].takes_template_arguments:
        return body.get("chat_template_kwargs") or {}
    return {key: body[key] for key in ("enable_thinking",) if key in body}


class OtherServerEncoder(CompletionEncoder):
    """An answer of vLLM, in the form of another server: the finish reason in a chunk of its own."""

    def __init__(self, server: OtherServer, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._traits = SERVERS[server]

    def encode_canvas(self, canvas: Canvas) -> list[Json]:
        """The chunks of one canvas."""
        chunks = [self._rewrite(chunk) for chunk in super().encode_canvas(canvas)]
        if canvas.is_last:
            chunk = chunks[-1]
            choice = chunk["choices"][0]
            end = {**chunk, "choices": [{**choice, "delta": {}}]}
            if choice["delta"]:
                chunks.append(end)
                chunks[-2] = {**chunk, "choices": [{**choice, "finish_reason": None}]}
            if not self._traits.has_usage_chunk:
                usage = super().encode_tail()
                chunks[-1] = {**end, "usage": usage[0]["usage"] if usage else None}
        return chunks

    def encode_tail(self) -> list[Json]:
        """The usage chunk, where there is one."""
        if not self._traits.has_usage_chunk:
            return []
        return [{**self._rewrite(chunk), "usage": chunk["usage"]} for chunk in super().encode_tail()]

    def encode_whole(self, text: str) -> Json:
        """The body of an answer that is not streamed."""
        body = super().encode_whole(text)
        return {**self._rewrite(body), "usage": body["usage"]}

    def _rewrite(self, body: Json) -> Json:
        choices = [self._rewrite_choice(choice) for choice in body["choices"]]
        return {**{key: body[key] for key in _TOP_FIELDS}, "choices": choices}

    def _rewrite_choice(self, choice: Json) -> Json:
        part = "message" if "message" in choice else "delta"
        message = {key: choice[part][key] for key in _MESSAGE_FIELDS if key in choice[part]}
        if choice[part].get("reasoning"):
            message[self._traits.reasoning_field] = choice[part]["reasoning"]
        if "tool_calls" in message and not self._traits.numbers_calls:
            message["tool_calls"] = [
                {key: call[key] for key in call if key != "index"} for call in message["tool_calls"]
            ]
        return {**{key: choice[key] for key in _CHOICE_FIELDS}, part: message}
