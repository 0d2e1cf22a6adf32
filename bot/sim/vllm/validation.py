"""The requests that the simulated server refuses, in vLLM's own words.

Pure: each check reads a request body and raises `VllmRefusal`. Unknown fields are silently accepted.
"""

import re
from collections.abc import Callable

from bot.sim.vllm.errors import (
    Json,
    ServerInfo,
    VllmRefusal,
    check_model,
    invalid_body,
    missing_field,
)
from bot.sim.vllm.images import check_images

_SAMPLING_MESSAGE = (
    "The temperature, min_p, seed, min_tokens, logit_bias, bad_words, and allowed_token_ids sampling "
    "parameters are not"
    " yet supported with diffusion models."
)
_STRUCTURED_OUTPUT_MESSAGE = (
    "Structured outputs are not yet supported for diffusion language models. Remove the structured output "
    "constraint"
    " (e.g. `response_format`, `structured_outputs`) from the request."
)
_CHAT_TEMPLATE_MESSAGE = (
    "Chat template is passed with request, but --trust-request-chat-template is not set. Refused request "
    "with untrusted"
    " chat template."
)
_EMPTY_TOOLS_MESSAGE = (
    "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely."
)
_TOOL_PARSER_MESSAGE = (
    '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
)
_TOOL_CHOICE_MESSAGE = 'Only named tools, "none", "auto" or "required" are supported.'
_CONTINUE_AND_ADD_MESSAGE = "Cannot set both `continue_final_message` and `add_generation_prompt` to True."
_CONTINUE_UNASKED_MESSAGE = "continue_final_message and add_generation_prompt are not compatible."
_NOTHING_TO_CONTINUE_MESSAGE = (
    'continue_final_message is set but the final message has no "content" to continue!'
)
_CACHE_SALT_MESSAGE = (
    "Parameter 'cache_salt' must be at most 128 characters and must not contain '@', '/', '\\\\', or NUL."
)
_CANVAS_LENGTH_MESSAGE = (
    "diffusion_canvas_length must be a positive integer no larger than the served canvas."
)
_MAX_STEPS_MESSAGE = "diffusion_max_steps must be a positive integer."
_CACHE_SALT_FORBIDDEN = re.compile(r"[@/\\\x00]")


def check_chat(body: Json, server_info: ServerInfo) -> None:
    """Everything that is checked before the prompt is rendered, in the server's order."""
    for check in _CHAT_CHECKS:
        check(body, server_info)


def check_length(prompt_tokens: int, server_info: ServerInfo) -> None:
    """Refuse a prompt that leaves no tokens for an answer. The stated length is the limit plus one."""
    if prompt_tokens >= server_info.context_tokens:
        least = server_info.context_tokens + 1
        raise VllmRefusal(
            400,
            f"This model's maximum context length is {server_info.context_tokens} tokens. However, your "
            "prompt contains at least"
            f" {least} input tokens, which exceeds this limit even without any output tokens. Please reduce "
            "the length"
            f" of the input prompt. (parameter=input_tokens, value={least})",
            param="input_tokens",
        )


def requested_max_tokens(body: Json) -> int | None:
    """The limit the request asks for, under either of its names."""
    limit = body.get("max_completion_tokens")
    limit = body.get("max_tokens") if limit is None else limit
    if limit is None:
        return None
    return int(limit)


def check_sampling(body: Json, server_info: ServerInfo) -> None:
    """Refuse what a diffusion model cannot do; checked last, after the prompt."""
    if not server_info.profile.knows_diffusion:
        return
    if _has_sampling_fields(body):
        raise VllmRefusal(400, _SAMPLING_MESSAGE)
    format_type = (body.get("response_format") or {}).get("type", "text")
    if format_type != "text" or body.get("structured_outputs"):
        raise VllmRefusal(400, _STRUCTURED_OUTPUT_MESSAGE)
    if server_info.profile.knows_canvas_limits:
        _check_canvas_limits(body.get("vllm_xargs") or {}, server_info.profile.canvas)


def _check_canvas_limits(options: Json, served_canvas: int) -> None:
    length = options.get("diffusion_canvas_length")
    if length is not None and (not isinstance(length, int) or not 0 < length <= served_canvas):
        raise VllmRefusal(400, f"{_CANVAS_LENGTH_MESSAGE} (parameter=extra_args)", param="extra_args")
    steps = options.get("diffusion_max_steps")
    if steps is not None and (not isinstance(steps, int) or steps < 1):
        raise VllmRefusal(400, f"{_MAX_STEPS_MESSAGE} (parameter=extra_args)", param="extra_args")


def _has_sampling_fields(body: Json) -> bool:
    if body.get("temperature") not in (None, 1) or body.get("seed") is not None:
        return True
    if any((body.get(name) or 0) > 0 for name in ("min_p", "min_tokens")):
        return True
    return any(body.get(name) for name in ("logit_bias", "bad_words", "allowed_token_ids"))


def _check_messages(body: Json, _: ServerInfo) -> None:
    messages = body.get("messages")
    if messages is None:
        raise missing_field("body.messages", body)
    if not isinstance(messages, list):
        raise invalid_body(
            {"type": "list_type", "loc": "body.messages", "msg": "Input should be a valid list"}
        )
    for place, message in enumerate(messages):
        location = f"body.messages.{place}"
        if not isinstance(message, dict) or "role" not in message:
            raise missing_field(f"{location}.role", message)
        _check_message(message, location)


def _check_message(message: Json, location: str) -> None:
    if message["role"] == "user" and message.get("content") is None:
        detail = {
            "type": "string_type",
            "loc": f"{location}.content",
            "msg": "Input should be a valid string",
        }
        raise invalid_body({**detail, "input": None}, 19)
    for place, call in enumerate(message.get("tool_calls") or ()):
        call_location = f"{location}.tool_calls.{place}"
        if "id" not in call or "type" not in call:
            raise invalid_body({"type": "missing", "loc": f"{call_location}.id", "msg": "Field required"}, 5)
        if call.get("function", {}).get("arguments") is None:
            detail = {
                "type": "string_type",
                "loc": f"{call_location}.function.arguments",
                "msg": "Input should be a valid string",
            }
            raise invalid_body(detail, 3)


def _check_tools(body: Json, server_info: ServerInfo) -> None:
    tools = body.get("tools")
    if tools == [] and server_info.profile.diffusion_checks:
        raise VllmRefusal(400, f"{_EMPTY_TOOLS_MESSAGE} (parameter=tools)", param="tools")
    for place, tool in enumerate(tools or ()):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict):
            raise missing_field(f"body.tools.{place}.function", tool)
        if "name" not in function:
            raise missing_field(f"body.tools.{place}.function.name", function)


def _check_tool_parser(body: Json, server_info: ServerInfo) -> None:
    if server_info.profile.tool_parser or not body.get("tools"):
        return
    if body.get("tool_choice") in (None, "auto"):
        raise VllmRefusal(400, _TOOL_PARSER_MESSAGE)


def _check_tool_choice(body: Json, _: ServerInfo) -> None:
    choice = body.get("tool_choice")
    if choice in (None, "none") or (choice == "auto" and not body.get("tools")):
        return
    if isinstance(choice, str) and choice not in ("auto", "required"):
        raise VllmRefusal(400, f"Invalid value for `tool_choice`: {choice}! {_TOOL_CHOICE_MESSAGE}")
    if not body.get("tools"):
        raise VllmRefusal(400, "When using `tool_choice`, `tools` must be set.")
    names = {tool["function"]["name"] for tool in body["tools"]}
    if isinstance(choice, dict) and choice.get("function", {}).get("name") not in names:
        raise VllmRefusal(
            400, "The tool specified in `tool_choice` does not match any of the specified `tools`"
        )


def _check_fields(body: Json, _: ServerInfo) -> None:
    stop = body.get("stop")
    if isinstance(stop, list) and len(stop) > 4:
        message = f"List should have at most 4 items after validation, not {len(stop)}"
        raise invalid_body({"type": "too_long", "loc": "body.stop", "msg": message}, 2)
    if body.get("stream_options") and not body.get("stream"):
        message = "Stream options can only be defined when `stream=True`. (parameter=stream_options)"
        raise VllmRefusal(400, message, param="stream_options")
    if body.get("chat_template") is not None:
        raise VllmRefusal(400, _CHAT_TEMPLATE_MESSAGE)
    salt = body.get("cache_salt")
    if salt is not None and (len(salt) > 128 or _CACHE_SALT_FORBIDDEN.search(salt)):
        raise VllmRefusal(400, f"{_CACHE_SALT_MESSAGE} (parameter=cache_salt)", param="cache_salt")


def _check_limits(body: Json, server_info: ServerInfo) -> None:
    limit = requested_max_tokens(body)
    if limit is not None and limit < 1:
        message = f"max_tokens must be at least 1, got {limit}. (parameter=max_tokens, value={limit})"
        raise VllmRefusal(400, message, param="max_tokens")
    if limit is not None and limit > server_info.context_tokens:
        message = (
            f"max_tokens={limit} cannot be greater than max_model_len={server_info.context_tokens}. Please "
            "request fewer output"
            f" tokens. (parameter=max_tokens, value={limit})"
        )
        raise VllmRefusal(400, message, param="max_tokens")


def check_continuation(body: Json, _: ServerInfo) -> None:
    """Allow an open last message only where no new one is begun.

    A new one is begun unless the request says otherwise.
    """
    if not body.get("continue_final_message"):
        return
    if body.get("add_generation_prompt"):
        raise VllmRefusal(400, _CONTINUE_AND_ADD_MESSAGE)
    if body.get("add_generation_prompt") is None:
        raise VllmRefusal(400, _CONTINUE_UNASKED_MESSAGE)
    if body["messages"][-1].get("content") is None:
        raise VllmRefusal(400, _NOTHING_TO_CONTINUE_MESSAGE)


def _check_not_empty(body: Json, _: ServerInfo) -> None:
    if not body["messages"]:
        message = "Cannot apply chat template to an empty conversation. Provide at least one message."
        raise VllmRefusal(400, message)


_CHAT_CHECKS: tuple[Callable[[Json, ServerInfo], None], ...] = (
    _check_messages,
    _check_tools,
    _check_fields,
    _check_tool_choice,
    check_model,
    _check_tool_parser,
    _check_not_empty,
    check_continuation,
    check_images,
    _check_limits,
)
