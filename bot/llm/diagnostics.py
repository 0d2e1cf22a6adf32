"""Finds what is wrong with a server, from what it showed at start and from its replies. Pure.

Every finding is one line with the flag that fixes it. Only what was observed is judged; a server that shows
little gets few findings.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bot.agent.sanitize import to_sendable
from bot.canvases import CANVAS_TOKENS
from bot.domain import Reply
from bot.llm.server_api import ServedModel
from bot.llm.stream import NO_USAGE

Release = tuple[int, int]

SERVES_MODEL_SINCE: Release = (0, 24)
TIMES_REQUESTS_SINCE: Release = (0, 26)
COUNTS_REASONING_SINCE: Release = (0, 28)
TYPED_READS_SINCE: Release = (0, 32)
RECOMMENDED_RELEASE: Release = (0, 33)

MAX_VERSION_CHARS = 60  # characters of a version that are shown

CONFIRMING_REPLIES = 3  # capped replies in a row from which the cap is sure
CAP_NOTICE = (
    f"The model's replies end after exactly {CANVAS_TOKENS} tokens though more was allowed: the server caps "
    "its output. Start vLLM with --generation-config vllm, and without max_new_tokens in "
    "--override-generation-config."
)

_UPDATE = "Update it: pip install -U 'vllm>=0.33.0', or the image vllm/vllm-openai:v0.33.0 or newer."
_PREVIEW = re.compile(r"0\.22\.\d+rc")
_UNSUPPORTED_INPUT = re.compile(r"\b(?:images?|pictures?|multimodal|mmproj|tools?)\b", re.IGNORECASE)
_THOUGHT = re.compile(r"\s*(?:<\|channel>|thought\n)")


@dataclass(frozen=True, slots=True)
class ServerSnapshot:
    """What a server showed at start.

    version: as it reports it; None if it does not.
    models: those it serves; None if it did not say.
    model: the one asked for; None: the first it serves.
    longest_prompt_tokens: the longest prompt with its answer.
    key_refused: what it said when it refused the key.
    replies: those of calls with tools, each with whether it was to think.
    refusal: what it said when it refused such a call.
    """

    version: str | None = None
    models: tuple[ServedModel, ...] | None = None
    model: str | None = None
    longest_prompt_tokens: int = 0
    key_refused: str | None = None
    replies: tuple[tuple[bool, Reply], ...] = ()
    refusal: str | None = None


def can_answer(snapshot: ServerSnapshot) -> bool:
    """Whether calls have a chance: the key is right, and the model is served."""
    if snapshot.key_refused is not None:
        return False
    if not snapshot.models or snapshot.model is None:
        return True
    return any(model.name == snapshot.model for model in snapshot.models)


def diagnose_server(snapshot: ServerSnapshot) -> tuple[str, ...]:
    """Findings about its version, its key and its models."""
    findings = [*_diagnose_version(snapshot.version)]
    if snapshot.key_refused:
        findings.append(f"{snapshot.key_refused} Set MODEL_API_KEY.")
    return (*findings, *_diagnose_models(snapshot))


def diagnose_calls(snapshot: ServerSnapshot) -> tuple[str, ...]:
    """Findings about the calls made at start."""
    release = parse_release(snapshot.version)
    counts_reasoning = release is not None and release >= COUNTS_REASONING_SINCE
    findings = [*_diagnose_replies(snapshot, counts_reasoning=counts_reasoning)]
    can_time = release is not None and release >= TIMES_REQUESTS_SINCE
    if can_time and snapshot.replies and not any(reply.server_timings for _, reply in snapshot.replies):
        problem = "The server does not say how long requests queued and were read there"
        findings.append(_name_flag(problem, "--enable-per-request-metrics", snapshot))
    return tuple(findings)


def parse_release(version: str | None) -> Release | None:
    """The first two numbers; None for a build from source without a tag, which could be anything."""
    numbers = re.match(r"(\d{1,4})\.(\d{1,4})", version or "")
    if version is None or numbers is None:
        return None
    release = (int(numbers[1]), int(numbers[2]))
    if release == (0, 1) and "dev" in version:
        return None
    return release


def is_unsupported_input(status: int, message: str) -> bool:
    """Whether a server error means that the server takes no images, or no tools, and never will.

    llama.cpp answers HTTP 500 where others refuse with 400.
    """
    return status == 500 and bool(_UNSUPPORTED_INPUT.search(message))


class OutputCapDetector:
    """Watches the replies of one endpoint for a server that ends each of them after one canvas.

    Old servers take such a cap from the model's own generation config, newer ones from a flag somebody set.
    """

    def __init__(self) -> None:
        self._capped_replies = 0

    def detect(self, reply: Reply, max_tokens: int) -> bool:
        """Whether this reply, which was allowed `max_tokens`, confirms a cap; True once only."""
        tokens = reply.usage.completion_tokens
        if tokens is None or self._capped_replies >= CONFIRMING_REPLIES:
            return False
        if tokens > CANVAS_TOKENS:
            self._capped_replies = 0
        elif tokens == CANVAS_TOKENS < max_tokens and reply.finish_reason == "length":
            self._capped_replies += 1
            return self._capped_replies == CONFIRMING_REPLIES
        return False


def _diagnose_version(version: str | None) -> Iterator[str]:
    if version is None:
        yield (
            "The endpoint does not say that it is vLLM (no /version). If it is one behind a proxy, let the "
            "proxy pass /version, /health and /tokenize, too; if it is another server, parts of this gateway "
            "will not work."
        )
        return
    release = parse_release(version)
    version = to_sendable(version)[:MAX_VERSION_CHARS]
    if _PREVIEW.match(version):
        yield (
            f"vLLM {version} is the preview image vllm/vllm-openai:gemma: many of its turns come back empty "
            f"or with raw markup, and its replies end after 256 tokens. {_UPDATE}"
        )
    elif release is not None and release < SERVES_MODEL_SINCE:
        yield f"vLLM {version} is older than the first release that serves DiffusionGemma, 0.24.0. {_UPDATE}"
    elif release is not None and release < RECOMMENDED_RELEASE:
        yield f"vLLM {version} {_describe_lacks(release)}; 0.33.0 or newer is recommended. {_UPDATE}"


def _describe_lacks(release: Release) -> str:
    if release < COUNTS_REASONING_SINCE:
        return "does not count reasoning, and cannot read in one step whether to think"
    if release < TYPED_READS_SINCE:
        return "cannot read in one step whether to think"
    return "is older than what this was built for"


def _diagnose_models(snapshot: ServerSnapshot) -> Iterator[str]:
    if not snapshot.models:
        return
    first_model = snapshot.models[0]
    served = {model.name: model for model in snapshot.models}
    model = served.get(snapshot.model) if snapshot.model else first_model
    needed = snapshot.longest_prompt_tokens
    if model is None:
        names = ", ".join(list(served)[:5])
        yield f"The endpoint does not serve {snapshot.model}, but {names}. Set MODEL_NAME={first_model.name}."
    elif model.context is not None and model.context < needed:
        yield (
            f"The endpoint's context of {model.context} tokens is smaller than the longest prompt with its "
            f"answer, {needed}. Start vLLM with --max-model-len {needed} or more, or lower PROMPT_BUDGET."
        )


def _diagnose_replies(snapshot: ServerSnapshot, *, counts_reasoning: bool) -> Iterator[str]:
    replies = snapshot.replies
    if snapshot.refusal is not None and "--enable-auto-tool-choice" in snapshot.refusal:
        yield "The server refuses tools: start vLLM with --enable-auto-tool-choice --tool-call-parser gemma4."
    elif snapshot.refusal is not None:
        yield f"{snapshot.refusal} Every message will be refused alike."
    if any(_is_unparsed(thinking, reply, counts_reasoning) for thinking, reply in replies):
        yield _name_flag(
            "The server does not tell thoughts from answers", "--reasoning-parser gemma4", snapshot
        )
    usages = [reply.usage for _, reply in replies]
    if any(usage.missing_reason == NO_USAGE for usage in usages):
        yield (
            "The server sends no usage with its streams though it is asked to, so what replies cost is "
            "estimated. If a proxy is in front of it, let it pass `usage`."
        )
    if any(usage.prompt_tokens is not None and usage.cached_tokens is None for usage in usages):
        problem = "The server does not say what it had in its cache, so that the account cannot either"
        yield _name_flag(problem, "--enable-prompt-tokens-details", snapshot)


def _name_flag(problem: str, flag: str, snapshot: ServerSnapshot) -> str:
    """The problem with vLLM's flag that fixes it, where the server says that it is vLLM."""
    if snapshot.version is None:
        return f"{problem}."
    return f"{problem}: start vLLM with {flag}."


def _is_unparsed(thinking: bool, reply: Reply, counts_reasoning: bool) -> bool:
    """Whether the server seems to send thoughts as part of the answer."""
    leaked = thinking and not reply.reasoning and bool(_THOUGHT.match(reply.text))
    uncounted = reply.usage.completion_tokens is not None and reply.usage.reasoning_tokens is None
    return leaked or (counts_reasoning and uncounted)
