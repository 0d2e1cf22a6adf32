"""Rendered conversations and tokens of requests, and the routes `/tokenize` and `/detokenize`.

Owns the ids it has given out, so that `/detokenize` can read them again.
"""

from collections.abc import Iterable
from typing import Any

from bot.sim.gemma.template import TemplateInput, render_prompt
from bot.sim.gemma.tokens import CONTROL_IDS, expand_images, token_id, tokenize
from bot.sim.vllm.errors import Json, ServerInfo, VllmRefusal, check_model
from bot.sim.vllm.other_servers import find_switch
from bot.sim.vllm.profile import Profile
from bot.sim.vllm.validation import check_continuation


def to_template_input(body: Json, profile: Profile) -> TemplateInput:
    """The part of a request that the template sees."""
    options = find_switch(body, profile.server)
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
        continue_last=bool(body.get("continue_final_message")) and profile.server is None,
        keeps_empty_thoughts=profile.keeps_empty_thoughts,
    )


class Tokenizer:
    """The two routes over token ids.

    Ids of ordinary tokens are invented, and known here once they were given out.
    """

    def __init__(self, server_info: ServerInfo) -> None:
        self._server_info = server_info
        self._text_by_id = {number: name for name, number in CONTROL_IDS.items()}

    def tokenize(self, body: Json) -> Json:
        """Answer `POST /tokenize`: a prompt, or messages with tools and template arguments."""
        check_model(body, self._server_info)
        text = self._rendered_text(body)
        if self._server_info.profile.defuses:
            seen = text
        else:
            seen = text.replace("\u200b", "")
        tokens = tokenize(expand_images(seen, self._server_info.profile.image_tokens))
        ids = [token_id(token) for token in tokens]
        self._text_by_id.update(zip(ids, tokens, strict=True))
        if body.get("return_token_strs"):
            strings = [token.replace(" ", "▁") for token in tokens]
        else:
            strings = None
        answer = {
            "count": len(ids),
            "max_model_len": self._server_info.context_tokens,
            "tokens": ids,
            "token_strs": strings,
        }
        if body.get("return_prompt_text"):
            return {**answer, "prompt_text": text}
        return answer

    def detokenize(self, ids: Iterable[Any]) -> Json:
        """Answer `POST /detokenize`; an unknown id is left out."""
        return {"prompt": "".join(self._text_by_id.get(number, "") for number in ids)}

    def _rendered_text(self, body: Json) -> str:
        if "messages" not in body:
            return str(body.get("prompt", ""))
        if not body["messages"]:
            raise VllmRefusal(
                400, "Cannot apply chat template to an empty conversation. Provide at least one message."
            )
        check_continuation(body, self._server_info)
        # This route knows reasoning by one of its names only.
        plain = [
            {key: value for key, value in m.items() if key != "reasoning_content"} for m in body["messages"]
        ]
        return render_prompt(to_template_input({**body, "messages": plain}, self._server_info.profile))
