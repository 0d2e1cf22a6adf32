"""What the simulated server refuses, in vLLM's own words.

Pure: each check looks at a request body and raises `Refusal`. Unknown fields pass without a word.
"""

import re
from collections.abc import Callable

from bot.sim.vllm.errors import Json, Refusal, Server, check_model, invalid, missing
from bot.sim.vllm.images import check_pictures

_UNSUPPORTED = (
    "The temperature, min_p, seed, min_tokens, logit_bias, bad_words, and allowed_token_ids sampling parameters are not"
    " yet supported with diffusion models."
)
_STRUCTURED = (
    "Structured outputs are not yet supported for diffusion language models. Remove the structured output constraint"
    " (e.g. `response_format`, `structured_outputs`) from the request."
)
_TEMPLATE = (
    "Chat template is passed with request, but --trust-request-chat-template is not set. Refused request with untrusted"
    " chat template."
)
_NO_TOOLS = "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely."
_NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
_CHOICE = 'Only named tools, "none", "auto" or "required" are supported.'
_BOTH = "Cannot set both `continue_final_message` and `add_generation_prompt` to True."
_NOT_ASKED = "continue_final_message and add_generation_prompt are not compatible."
_NOTHING_OPEN = 'continue_final_message is set but the final message has no "content" to continue!'
_SALT = "Parameter 'cache_salt' must be at most 128 characters and must not contain '@', '/', '\\\\', or NUL."
_CANVAS = "diffusion_canvas_length must be a positive integer no larger than the served canvas."
_BAD_SALT = re.compile(r"[@/\\\x00]")


def check_chat(body: Json, server: Server) -> None:
    """Everything that is looked at before the prompt is rendered, in the server's order."""
    for check in _CHAT:
        check(body, server)


def check_length(tokens: int, server: Server) -> None:
    """A prompt that leaves no room for an answer; the number named is the limit and one, not the real length."""
    if tokens >= server.context:
        least = server.context + 1
        raise Refusal(
            400,
            f"This model's maximum context length is {server.context} tokens. However, your prompt contains at least"
            f" {least} input tokens, which exceeds this limit even without any output tokens. Please reduce the length"
            f" of the input prompt. (parameter=input_tokens, value={least})",
            param="input_tokens",
        )


def wanted_tokens(body: Json) -> int | None:
    """The limit the request asks for, under either of its names."""
    limit = body.get("max_completion_tokens")
    limit = body.get("max_tokens") if limit is None else limit
    if limit is None:
        return None
    return int(limit)


def check_sampling(body: Json, server: Server) -> None:
    """What a diffusion model cannot do; looked at last, after the prompt."""
    if not server.profile.diffusion_checks:
        return
    if _wants_sampling(body):
        raise Refusal(400, _UNSUPPORTED)
    wanted = (body.get("response_format") or {}).get("type", "text")
    if wanted != "text" or body.get("structured_outputs"):
        raise Refusal(400, _STRUCTURED)
    length = (body.get("vllm_xargs") or {}).get("diffusion_canvas_length", 1)
    if not isinstance(length, int) or not 0 < length <= server.profile.canvas:
        raise Refusal(400, f"{_CANVAS} (parameter=extra_args)", param="extra_args")


def _wants_sampling(body: Json) -> bool:
    if body.get("temperature") not in (None, 1) or body.get("seed") is not None:
        return True
    if any((body.get(name) or 0) > 0 for name in ("min_p", "min_tokens")):
        return True
    return any(body.get(name) for name in ("logit_bias", "bad_words", "allowed_token_ids"))


def _messages(body: Json, _: Server) -> None:
    messages = body.get("messages")
    if messages is None:
        raise missing("body.messages", body)
    if not isinstance(messages, list):
        raise invalid({"type": "list_type", "loc": "body.messages", "msg": "Input should be a valid list"})
    for place, message in enumerate(messages):
        where = f"body.messages.{place}"
        if not isinstance(message, dict) or "role" not in message:
            raise missing(f"{where}.role", message)
        _message(message, where)


def _message(message: Json, where: str) -> None:
    if message["role"] == "user" and message.get("content") is None:
        detail = {"type": "string_type", "loc": f"{where}.content", "msg": "Input should be a valid string"}
        raise invalid({**detail, "input": None}, 19)
    for place, call in enumerate(message.get("tool_calls") or ()):
        at = f"{where}.tool_calls.{place}"
        if "id" not in call or "type" not in call:
            raise invalid({"type": "missing", "loc": f"{at}.id", "msg": "Field required"}, 5)
        if call.get("function", {}).get("arguments") is None:
            detail = {
                "type": "string_type",
                "loc": f"{at}.function.arguments",
                "msg": "Input should be a valid string",
            }
            raise invalid(detail, 3)


def _tools(body: Json, server: Server) -> None:
    tools = body.get("tools")
    if tools == [] and server.profile.diffusion_checks:
        raise Refusal(400, f"{_NO_TOOLS} (parameter=tools)", param="tools")
    for place, tool in enumerate(tools or ()):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict):
            raise missing(f"body.tools.{place}.function", tool)
        if "name" not in function:
            raise missing(f"body.tools.{place}.function.name", function)


def _tool_parser(body: Json, server: Server) -> None:
    if body.get("tools") and body.get("tool_choice") in (None, "auto") and not server.profile.tool_parser:
        raise Refusal(400, _NO_PARSER)


def _tool_choice(body: Json, _: Server) -> None:
    choice = body.get("tool_choice")
    if choice in (None, "none") or (choice == "auto" and not body.get("tools")):
        return
    if isinstance(choice, str) and choice not in ("auto", "required"):
        raise Refusal(400, f"Invalid value for `tool_choice`: {choice}! {_CHOICE}")
    if not body.get("tools"):
        raise Refusal(400, "When using `tool_choice`, `tools` must be set.")
    names = {tool["function"]["name"] for tool in body["tools"]}
    if isinstance(choice, dict) and choice.get("function", {}).get("name") not in names:
        raise Refusal(400, "The tool specified in `tool_choice` does not match any of the specified `tools`")


def _fields(body: Json, _: Server) -> None:
    stop = body.get("stop")
    if isinstance(stop, list) and len(stop) > 4:
        message = f"List should have at most 4 items after validation, not {len(stop)}"
        raise invalid({"type": "too_long", "loc": "body.stop", "msg": message}, 2)
    if body.get("stream_options") and not body.get("stream"):
        message = "Stream options can only be defined when `stream=True`. (parameter=stream_options)"
        raise Refusal(400, message, param="stream_options")
    if body.get("chat_template") is not None:
        raise Refusal(400, _TEMPLATE)
    salt = body.get("cache_salt")
    if salt is not None and (len(salt) > 128 or _BAD_SALT.search(salt)):
        raise Refusal(400, f"{_SALT} (parameter=cache_salt)", param="cache_salt")


def _limits(body: Json, server: Server) -> None:
    limit = wanted_tokens(body)
    if limit is not None and limit < 1:
        message = f"max_tokens must be at least 1, got {limit}. (parameter=max_tokens, value={limit})"
        raise Refusal(400, message, param="max_tokens")
    if limit is not None and limit > server.context:
        message = (
            f"max_tokens={limit} cannot be greater than max_model_len={server.context}. Please request fewer output"
            f" tokens. (parameter=max_tokens, value={limit})"
        )
        raise Refusal(400, message, param="max_tokens")


def check_continuing(body: Json, _: Server) -> None:
    """The last message is left open only where no new one is begun; begun it is, unless the request says
    otherwise.
    """
    if not body.get("continue_final_message"):
        return
    if body.get("add_generation_prompt"):
        raise Refusal(400, _BOTH)
    if body.get("add_generation_prompt") is None:
        raise Refusal(400, _NOT_ASKED)
    if body["messages"][-1].get("content") is None:
        raise Refusal(400, _NOTHING_OPEN)


def _conversation(body: Json, _: Server) -> None:
    if not body["messages"]:
        message = "Cannot apply chat template to an empty conversation. Provide at least one message."
        raise Refusal(400, message)


_CHAT: tuple[Callable[[Json, Server], None], ...] = (
    _messages,
    _tools,
    _fields,
    _tool_choice,
    check_model,
    _tool_parser,
    _conversation,
    check_continuing,
    check_pictures,
    _limits,
)
