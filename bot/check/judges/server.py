"""Judges what a server tells of itself: that it is there, its release, its model, its door, its language.
Pure.
"""

import ipaddress
from collections.abc import Iterator
from urllib.parse import urlsplit

from bot.agent.sanitize import to_sendable
from bot.check.findings import Verdict, fail_verdict, pass_verdict, unknown_verdict, warn_verdict
from bot.check.observations import Observations, parse_count
from bot.llm import diagnostics as complaints
from bot.llm.diagnostics import RECOMMENDED_RELEASE, SERVES_MODEL_SINCE, Release
from bot.llm.server_api import parse_models

MAX_NAME_CHARACTERS = 60  # characters of a name that are shown

_UPDATE_FIX = "use the image vllm/vllm-openai:v0.33.0 or newer, or pip install -U 'vllm>=0.33.0'"


def parse_release(observations: Observations) -> Release | None:
    """The first two numbers of the version; None if it is not told, or means nothing."""
    if observations.version and observations.version.ok:
        told = observations.version.body.get("version")
    else:
        told = None
    if isinstance(told, str):
        return complaints.parse_release(told)
    return None


def judge_reachable(observations: Observations) -> Verdict:
    """Whether it answered, and to the end."""
    if observations.version is None and observations.models is None:
        return fail_verdict(
            f"Nothing that answers: {observations.unknown_reason('models')}.",
            "start the server, or set MODEL_URL",
        )
    if observations.gone:
        return fail_verdict(f"It did not come to the end: {observations.stopped}.", "see the server's log")
    if observations.lost:
        told = "; ".join(observations.lost.values())
        return warn_verdict(
            f"{len(observations.lost)} of {observations.calls} calls came to nothing: {told}.",
            "see the server's log",
        )
    return pass_verdict(f"Answered {observations.calls} calls in {observations.seconds:.0f} s.")


def judge_version(observations: Observations) -> Verdict:
    """Whether it is a release this was built for."""
    number = parse_release(observations)
    if observations.version is None:
        return unknown_verdict(f"Not told: {observations.unknown_reason('version')}.")
    if number is None:
        return unknown_verdict("It does not say which vLLM it is (no /version, or a build without a tag).")
    told = f"vLLM {to_sendable(str(observations.version.body['version']))[:MAX_NAME_CHARACTERS]}"
    if number < SERVES_MODEL_SINCE:
        return fail_verdict(f"{told} is older than the first release with this model, 0.24.0.", _UPDATE_FIX)
    if number < RECOMMENDED_RELEASE:
        return warn_verdict(f"{told}; 0.33.0 or newer is advised.", _UPDATE_FIX)
    return pass_verdict(f"{told}.")


def judge_model(observations: Observations) -> Verdict:
    """Whether the model that will be asked for is served."""
    if (
        observations.models is None
        or observations.models.status in {401, 403}
        or observations.models.status >= 500
    ):
        return unknown_verdict(f"Not told: {observations.unknown_reason('models')}.")
    names = [to_sendable(model.name) for model in parse_models(observations.models.body)]
    if not names:
        return fail_verdict(
            f"The endpoint names no model (HTTP {observations.models.status}).", "MODEL_URL should end in /v1"
        )
    shown = ", ".join(name[:MAX_NAME_CHARACTERS] for name in names[:5])
    if observations.wanted_model is not None and observations.wanted_model not in names:
        return fail_verdict(
            f"{observations.wanted_model} is not served, but {shown}.", f"MODEL_NAME={names[0]}"
        )
    return pass_verdict(f"Serves {shown}.")


def judge_context(observations: Observations) -> Verdict:
    """Whether the longest prompt and its answer have room."""
    if observations.models is None or not observations.models.ok:
        return unknown_verdict(f"Not told: {observations.unknown_reason('models')}.")
    rows = parse_models(observations.models.body)
    wanted = [model for model in rows if model.name == observations.wanted_model] or rows
    limit = wanted[0].context if wanted else None
    if limit is None:
        return unknown_verdict("The endpoint does not tell how long a prompt may be (no max_model_len).")
    if observations.needs_tokens is not None and limit < observations.needs_tokens:
        return warn_verdict(
            f"{limit:,} tokens are less than the longest prompt with its answer, {observations.needs_tokens:,}.",
            f"--max-model-len {observations.needs_tokens} or more, or a smaller PROMPT_BUDGET",
        )
    return pass_verdict(f"{limit:,} tokens.")


def judge_key(observations: Observations) -> Verdict:
    """Whether the door is shut where others can reach it."""
    if observations.models is None:
        return unknown_verdict(f"Not told: {observations.unknown_reason('models')}.")
    if observations.models.status in {401, 403}:
        if observations.has_key:
            how = "The key is refused."
        else:
            how = "A key is wanted, and none is set."
        return fail_verdict(how, "MODEL_API_KEY, the value of the server's --api-key")
    if observations.has_key and (observations.keyless is None or not observations.keyless.ok):
        if observations.keyless is None:
            return unknown_verdict(f"Not told: {observations.unknown_reason('key')}.")
        return pass_verdict("A key is wanted for model calls; vLLM leaves /metrics and /tokenize open.")
    if _is_loopback(observations.url):
        return pass_verdict("No key is wanted, and none is needed: it was reached on this machine.")
    return warn_verdict(
        "No key is wanted, though it is reached over a network.", "--api-key, and MODEL_API_KEY here"
    )


def judge_protocol(observations: Observations) -> Verdict:
    """What a server that is not vLLM lacks."""
    if "plain" not in observations.answers:
        return unknown_verdict(f"Not told: {observations.unknown_reason('plain')}.")
    first = observations.answers["plain"]
    if not first.ok:
        return fail_verdict(
            f"Model calls are refused (HTTP {first.status}): {first.error_message}",
            "what it says; MODEL_URL and MODEL_NAME",
        )
    lacking = list(_missing_features(observations))
    if not lacking:
        return pass_verdict("Speaks vLLM's protocol.")
    return warn_verdict(
        f"Lacks {', '.join(lacking)}.", "serve with vLLM 0.33, or let the proxy pass its routes and fields"
    )


def _missing_features(observations: Observations) -> Iterator[str]:
    if observations.version is not None and not observations.version.ok:
        yield "/version"
    shown = observations.templates.get("off")
    if shown is not None and parse_count(shown.body, "count") is None:
        yield "/tokenize (prompts cannot be counted before they are sent)"
    if observations.crowd is not None and observations.crowd.before is None:
        yield "/metrics (counts cannot be held against the server's)"
    if observations.refuses_ours is not None:
        yield f"vLLM's fields, thinking and priority among them ({observations.refuses_ours})"


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
