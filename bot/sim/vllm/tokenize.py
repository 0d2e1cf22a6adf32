"""Conversations and tokens for the simulated endpoint's requests: what is rendered, and `/tokenize` with its
reverse.

Owns the ids it has given out, so that `/detokenize` can read them again.
"""

from collections.abc import Iterable
from typing import Any

from bot.sim.gemma.template import Conversation, render
from bot.sim.gemma.tokens import CONTROL_IDS, spread, token_id, tokenize
from bot.sim.vllm.errors import Json, Refusal, Server, check_model
from bot.sim.vllm.profile import Profile
from bot.sim.vllm.validation import check_continuing


def conversation_of(body: Json, profile: Profile) -> Conversation:
    """What of a request the template gets to see."""
    options = body.get("chat_template_kwargs") or {}
    effort = body.get("reasoning_effort")
    thinking = options.get("enable_thinking")
    if not profile.thinking_switch:
        thinking = profile.thinking
    if thinking is None:
        thinking = profile.thinking or effort not in (None, "none")
    return Conversation(
        messages=body["messages"],
        tools=body.get("tools") or (),
        thinking=bool(thinking),
        preserve_thinking=bool(options.get("preserve_thinking")),
        generate=body.get("add_generation_prompt", True) is not False,
        continue_last=bool(body.get("continue_final_message")),
        keeps_empty_thoughts=profile.keeps_empty_thoughts,
    )


class Tokenizer:
    """The two routes over token ids. Ids of ordinary tokens are made up, and known here once they were given
    out.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._texts = {number: name for name, number in CONTROL_IDS.items()}

    def tokenize(self, body: Json) -> Json:
        """Answer `POST /tokenize`: a prompt, or messages with tools and template arguments."""
        check_model(body, self._server)
        text = self._text(body)
        if self._server.profile.defuses:
            seen = text
        else:
            seen = text.replace("\u200b", "")
        tokens = tokenize(spread(seen))
        ids = [token_id(token) for token in tokens]
        self._texts.update(zip(ids, tokens, strict=True))
        if body.get("return_token_strs"):
            strings = [token.replace(" ", "▁") for token in tokens]
        else:
            strings = None
        answer = {
            "count": len(ids),
            "max_model_len": self._server.context,
            "tokens": ids,
            "token_strs": strings,
        }
        if body.get("return_prompt_text"):
            return {**answer, "prompt_text": text}
        return answer

    def detokenize(self, ids: Iterable[Any]) -> Json:
        """Answer `POST /detokenize`; an id that means nothing is left out."""
        return {"prompt": "".join(self._texts.get(number, "") for number in ids)}

    def _text(self, body: Json) -> str:
        if "messages" not in body:
            return str(body.get("prompt", ""))
        if not body["messages"]:
            raise Refusal(
                400, "Cannot apply chat template to an empty conversation. Provide at least one message."
            )
        check_continuing(body, self._server)
        # This route knows reasoning by one of its names only.
        plain = [
            {key: value for key, value in m.items() if key != "reasoning_content"} for m in body["messages"]
        ]
        return render(conversation_of({**body, "messages": plain}, self._server.profile))
