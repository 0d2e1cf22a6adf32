"""Rendered conversations and tokens of requests, and the route `/tokenize`. Pure."""

from bot.sim.gemma.template import TemplateInput, render_prompt
from bot.sim.gemma.tokens import expand_images, token_id, tokenize
from bot.sim.vllm.errors import Json, ServerInfo, VllmRefusal, check_model
from bot.sim.vllm.profile import Profile
from bot.sim.vllm.validation import check_continuation


def to_template_input(body: Json, profile: Profile) -> TemplateInput:
    """The part of a request that the template sees."""
    options = body.get("chat_template_kwargs") or {}
    effort = body.get("reasoning_effort")
    thinking = options.get("enable_thinking")
    if not profile.thinking_switch:
        thinking = profile.thinking
    if thinking is None:
        thinking = profile.thinking or effort not in (None, "none")
    return TemplateInput(
        messages=body["messages"],
        tools=body.get("tools") or (),
        thinking=bool(thinking),
        preserve_thinking=bool(options.get("preserve_thinking")),
        generate=body.get("add_generation_prompt", True) is not False,
        continue_last=bool(body.get("continue_final_message")),
        keeps_empty_thoughts=profile.keeps_empty_thoughts,
    )


def answer_tokenize(body: Json, server_info: ServerInfo) -> Json:
    """The answer to `POST /tokenize`: of a prompt, or of messages with tools and template arguments."""
    check_model(body, server_info)
    text = _render_text(body, server_info)
    if server_info.profile.defuses:
        seen = text
    else:
        seen = text.replace("\u200b", "")
    tokens = tokenize(expand_images(seen, server_info.profile.image_tokens))
    ids = [token_id(token) for token in tokens]
    if body.get("return_token_strs"):
        strings = [token.replace(" ", "▁") for token in tokens]
    else:
        strings = None
    answer = {
        "count": len(ids),
        "max_model_len": server_info.context_tokens,
        "tokens": ids,
        "token_strs": strings,
    }
    if body.get("return_prompt_text"):
        return {**answer, "prompt_text": text}
    return answer


def _render_text(body: Json, server_info: ServerInfo) -> str:
    if "messages" not in body:
        return str(body.get("prompt", ""))
    if not body["messages"]:
        raise VllmRefusal(
            400, "Cannot apply chat template to an empty conversation. Provide at least one message."
        )
    check_continuation(body, server_info)
    # This route knows reasoning by one of its names only.
    plain = [{key: value for key, value in m.items() if key != "reasoning_content"} for m in body["messages"]]
    return render_prompt(to_template_input({**body, "messages": plain}, server_info.profile))
