"""What is wrong with a server, from what was seen of it at start: a line each, with the flag that mends it.
Pure.

Only what was seen is judged; a server that says little is complained about little.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bot.agent.sanitize import to_sendable
from bot.domain import Reply
from bot.llm.server_api import ServedModel

Release = tuple[int, int]

SERVES_MODEL_SINCE: Release = (0, 24)
COUNTS_REASONING_SINCE: Release = (0, 28)
TYPED_READS_SINCE: Release = (0, 32)
RECOMMENDED_RELEASE: Release = (0, 33)

MAX_VERSION_CHARS = 60  # characters of a version that are shown

_UPDATE = "Update it: pip install -U 'vllm>=0.33.0', or the image vllm/vllm-openai:v0.33.0 or newer."
_PREVIEW = re.compile(r"0\.22\.\d+rc")
_THOUGHT = re.compile(r"\s*(?:<\|channel>|thought\n)")


@dataclass(frozen=True, slots=True)
class ServerSnapshot:
    """What a server showed at start. `models` is what it serves, None if it did not say; `model` what is
    asked for.

    `longest` is the longest prompt with its answer, in tokens. `replies` are those of calls with tools, each
    with whether it was to think; `refusal` are the words of one that was refused.
    """

    version: str | None = None
    models: tuple[ServedModel, ...] | None = None
    model: str | None = None
    longest_prompt_tokens: int = 0
    key_refused: str | None = None
    replies: tuple[tuple[bool, Reply], ...] = ()
    refusal: str | None = None


def can_answer(snapshot: ServerSnapshot) -> bool:
    """Whether calls have a chance: the key is right, and the model there."""
    known = (
        not snapshot.models
        or snapshot.model is None
        or snapshot.model in {model.name for model in snapshot.models}
    )
    return known and snapshot.key_refused is None


def diagnose_server(snapshot: ServerSnapshot) -> tuple[str, ...]:
    """What its version, its key and its models give cause to say."""
    key: tuple[str, ...] = ()
    if snapshot.key_refused:
        key = (f"{snapshot.key_refused} Set MODEL_API_KEY.",)
    return (*_diagnose_version(snapshot.version), *key, *_diagnose_models(snapshot))


def diagnose_calls(snapshot: ServerSnapshot) -> tuple[str, ...]:
    """What the calls made at start give cause to say."""
    number = parse_release(snapshot.version)
    return tuple(
        _diagnose_replies(snapshot, counts_reasoning=number is not None and number >= COUNTS_REASONING_SINCE)
    )


def parse_release(version: str | None) -> Release | None:
    """The first two numbers; None for a build from source without a tag, which could be anything."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})", version or "")
    number = (int(found[1]), int(found[2])) if found else None
    if number == (0, 1) and "dev" in (version or ""):
        return None
    return number


def _diagnose_version(version: str | None) -> Iterator[str]:
    number = parse_release(version)
    version = version and to_sendable(version)[:MAX_VERSION_CHARS]
    if version is None:
        yield (
            "The endpoint does not say that it is vLLM (no /version). If it is one behind a proxy, let the proxy pass "
            "/version, /health and /tokenize, too; if it is another server, parts of this gateway will not work."
        )
    elif _PREVIEW.match(version):
        yield (
            f"vLLM {version} is the preview image vllm/vllm-openai:gemma: many of its turns come back empty or with "
            f"raw markup, and its replies end after 256 tokens. {_UPDATE}"
        )
    elif number is not None and number < SERVES_MODEL_SINCE:
        yield f"vLLM {version} is older than the first release that serves DiffusionGemma, 0.24.0. {_UPDATE}"
    elif number is not None and number < RECOMMENDED_RELEASE:
        yield f"vLLM {version} {_describe_lacks(number)}; 0.33.0 or newer is recommended. {_UPDATE}"


def _describe_lacks(server_release: Release) -> str:
    if server_release < COUNTS_REASONING_SINCE:
        return "does not count reasoning, and cannot read in one step whether to think"
    if server_release < TYPED_READS_SINCE:
        return "cannot read in one step whether to think"
    return "is older than what this was built for"


def _diagnose_models(snapshot: ServerSnapshot) -> Iterator[str]:
    if not snapshot.models:
        return
    served = {model.name: model for model in snapshot.models}
    model = served.get(snapshot.model) if snapshot.model else snapshot.models[0]
    if model is None:
        names = ", ".join(list(served)[:5])
        yield f"The endpoint does not serve {snapshot.model}, but {names}. Set MODEL_NAME={snapshot.models[0].name}."
    elif model.context is not None and model.context < snapshot.longest_prompt_tokens:
        yield (
            f"The endpoint's context of {model.context} tokens is smaller than the longest prompt with its answer, "
            f"{snapshot.longest_prompt_tokens}. Start vLLM with --max-model-len {snapshot.longest_prompt_tokens} or more, or lower PROMPT_BUDGET."
        )


def _diagnose_replies(snapshot: ServerSnapshot, *, counts_reasoning: bool) -> Iterator[str]:
    if snapshot.refusal is not None and "--enable-auto-tool-choice" in snapshot.refusal:
        yield "The server refuses tools: start vLLM with --enable-auto-tool-choice --tool-call-parser gemma4."
    elif snapshot.refusal is not None:
        yield f"{snapshot.refusal} Every message will be refused alike."
    if any(
        _is_unparsed(thinking, reply, counts_reasoning=counts_reasoning)
        for thinking, reply in snapshot.replies
    ):
        yield "The server does not tell thoughts from answers: start vLLM with --reasoning-parser gemma4."
    if any(
        reply.usage.prompt_tokens is not None and reply.usage.cached_tokens is None
        for _, reply in snapshot.replies
    ):
        yield (
            "The server does not say what it had in its cache, so that the account cannot either: "
            "start vLLM with --enable-prompt-tokens-details."
        )


def _is_unparsed(thinking: bool, reply: Reply, *, counts_reasoning: bool) -> bool:
    leaked = thinking and not reply.reasoning and bool(_THOUGHT.match(reply.text))
    uncounted = reply.usage.completion_tokens is not None and reply.usage.reasoning_tokens is None
    return leaked or (counts_reasoning and uncounted)
