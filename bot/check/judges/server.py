"""Judges what a server tells of itself: that it is there, its release, its model, its door, its language.
Pure.
"""

import ipaddress
from collections.abc import Iterator
from urllib.parse import urlsplit

from bot.agent.sanitize import sendable
from bot.check.findings import Verdict, failed, passed, unknown, warned
from bot.check.observations import Seen, count
from bot.llm import diagnostics as complaints
from bot.llm.diagnostics import KNOWS_THE_MODEL, WANTED, Release
from bot.llm.server_api import served

LONGEST = 60  # characters of a name that are shown

_UPDATE = "use the image vllm/vllm-openai:v0.33.0 or newer, or pip install -U 'vllm>=0.33.0'"


def release(seen: Seen) -> Release | None:
    """The first two numbers of the version; None if it is not told, or means nothing."""
    if seen.version and seen.version.ok:
        told = seen.version.body.get("version")
    else:
        told = None
    if isinstance(told, str):
        return complaints.release(told)
    return None


def reachable(seen: Seen) -> Verdict:
    """Whether it answered, and to the end."""
    if seen.version is None and seen.models is None:
        return failed(f"Nothing that answers: {seen.why('models')}.", "start the server, or set MODEL_URL")
    if seen.gone:
        return failed(f"It did not come to the end: {seen.stopped}.", "see the server's log")
    if seen.lost:
        told = "; ".join(seen.lost.values())
        return warned(
            f"{len(seen.lost)} of {seen.calls} calls came to nothing: {told}.", "see the server's log"
        )
    return passed(f"Answered {seen.calls} calls in {seen.seconds:.0f} s.")


def version(seen: Seen) -> Verdict:
    """Whether it is a release this was built for."""
    number = release(seen)
    if seen.version is None:
        return unknown(f"Not told: {seen.why('version')}.")
    if number is None:
        return unknown("It does not say which vLLM it is (no /version, or a build without a tag).")
    told = f"vLLM {sendable(str(seen.version.body['version']))[:LONGEST]}"
    if number < KNOWS_THE_MODEL:
        return failed(f"{told} is older than the first release with this model, 0.24.0.", _UPDATE)
    if number < WANTED:
        return warned(f"{told}; 0.33.0 or newer is advised.", _UPDATE)
    return passed(f"{told}.")


def model(seen: Seen) -> Verdict:
    """Whether the model that will be asked for is served."""
    if seen.models is None or seen.models.status in {401, 403} or seen.models.status >= 500:
        return unknown(f"Not told: {seen.why('models')}.")
    names = [sendable(model.name) for model in served(seen.models.body)]
    if not names:
        return failed(
            f"The endpoint names no model (HTTP {seen.models.status}).", "MODEL_URL should end in /v1"
        )
    shown = ", ".join(name[:LONGEST] for name in names[:5])
    if seen.wanted_model is not None and seen.wanted_model not in names:
        return failed(f"{seen.wanted_model} is not served, but {shown}.", f"MODEL_NAME={names[0]}")
    return passed(f"Serves {shown}.")


def context(seen: Seen) -> Verdict:
    """Whether the longest prompt and its answer have room."""
    if seen.models is None or not seen.models.ok:
        return unknown(f"Not told: {seen.why('models')}.")
    rows = served(seen.models.body)
    wanted = [model for model in rows if model.name == seen.wanted_model] or rows
    limit = wanted[0].context if wanted else None
    if limit is None:
        return unknown("The endpoint does not tell how long a prompt may be (no max_model_len).")
    if seen.needs_tokens is not None and limit < seen.needs_tokens:
        return warned(
            f"{limit:,} tokens are less than the longest prompt with its answer, {seen.needs_tokens:,}.",
            f"--max-model-len {seen.needs_tokens} or more, or a smaller PROMPT_BUDGET",
        )
    return passed(f"{limit:,} tokens.")


def key(seen: Seen) -> Verdict:
    """Whether the door is shut where others can reach it."""
    if seen.models is None:
        return unknown(f"Not told: {seen.why('models')}.")
    if seen.models.status in {401, 403}:
        if seen.has_key:
            how = "The key is refused."
        else:
            how = "A key is wanted, and none is set."
        return failed(how, "MODEL_API_KEY, the value of the server's --api-key")
    if seen.has_key and (seen.keyless is None or not seen.keyless.ok):
        if seen.keyless is None:
            return unknown(f"Not told: {seen.why('key')}.")
        return passed("A key is wanted for model calls; vLLM leaves /metrics and /tokenize open.")
    if _is_loopback(seen.url):
        return passed("No key is wanted, and none is needed: it was reached on this machine.")
    return warned(
        "No key is wanted, though it is reached over a network.", "--api-key, and MODEL_API_KEY here"
    )


def protocol(seen: Seen) -> Verdict:
    """What a server that is not vLLM lacks."""
    if "plain" not in seen.answers:
        return unknown(f"Not told: {seen.why('plain')}.")
    first = seen.answers["plain"]
    if not first.ok:
        return failed(
            f"Model calls are refused (HTTP {first.status}): {first.words}",
            "what it says; MODEL_URL and MODEL_NAME",
        )
    lacking = list(_lacking(seen))
    if not lacking:
        return passed("Speaks vLLM's protocol.")
    return warned(
        f"Lacks {', '.join(lacking)}.", "serve with vLLM 0.33, or let the proxy pass its routes and fields"
    )


def _lacking(seen: Seen) -> Iterator[str]:
    if seen.version is not None and not seen.version.ok:
        yield "/version"
    shown = seen.templates.get("off")
    if shown is not None and count(shown.body, "count") is None:
        yield "/tokenize (prompts cannot be counted before they are sent)"
    if seen.crowd is not None and seen.crowd.before is None:
        yield "/metrics (counts cannot be held against the server's)"
    if seen.refuses_ours is not None:
        yield f"vLLM's fields, thinking and priority among them ({seen.refuses_ours})"


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
