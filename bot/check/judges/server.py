"""Judges what a server reports about itself: its release, model, context, access and protocol. Pure."""

import ipaddress
from collections.abc import Iterator
from urllib.parse import urlsplit

from bot.agent.sanitize import to_sendable
from bot.check.findings import Verdict, fail_verdict, pass_verdict, unknown_verdict, warn_verdict
from bot.check.observations import Observations, RouteResponse
from bot.llm import diagnostics
from bot.llm.diagnostics import RECOMMENDED_RELEASE, SERVES_MODEL_SINCE, Release
from bot.llm.dialect import VLLM, find_dialect
from bot.llm.server_api import parse_models
from bot.llm.stream import parse_count

MAX_NAME_CHARACTERS = 60  # of a name that is shown
_MAX_SERVERS = 64  # of a router that are looked at

_UPDATE_FIX = "use the image vllm/vllm-openai:v0.33.0 or newer, or pip install -U 'vllm>=0.33.0'"


def parse_release(observations: Observations) -> Release | None:
    """The first two numbers of the version; None if it is not reported, or means nothing."""
    if observations.version is None or not observations.version.ok:
        return None
    version = observations.version.body.get("version")
    if isinstance(version, str):
        return diagnostics.parse_release(version)
    return None


def is_vllm(observations: Observations) -> bool:
    """Whether anything shows that the server is vLLM: its release, its gauges or its list of models."""
    if parse_release(observations) is not None or observations.before is not None:
        return True
    return observations.models is not None and find_dialect(observations.models.body) is VLLM


def judge_reachable(observations: Observations) -> Verdict:
    """Whether it answered, and until the end of the check."""
    if observations.version is None and observations.models is None:
        return fail_verdict(
            f"Nothing that answers: {observations.unknown_reason('models')}.",
            "start the server, or set MODEL_URL",
        )
    if observations.gone:
        return fail_verdict(f"It did not come to the end: {observations.stopped}.", "see the server's log")
    if observations.lost:
        reasons = "; ".join(observations.lost.values())
        return warn_verdict(
            f"{len(observations.lost)} of {observations.calls} calls came to nothing: {reasons}.",
            "see the server's log",
        )
    return pass_verdict(f"Answered {observations.calls} calls in {observations.seconds:.0f} s.")


def judge_version(observations: Observations) -> Verdict:
    """Whether the gateway was built for this release."""
    release = parse_release(observations)
    if observations.version is None:
        return unknown_verdict(f"Not told: {observations.unknown_reason('version')}.")
    dialect = find_dialect(observations.models.body) if observations.models is not None else None
    if dialect is not None and dialect is not VLLM:
        return warn_verdict(
            f"This seems to be {dialect.server}. What it does was read in its sources and never tried.",
            "vLLM 0.33, or see bot/docs/servers.md",
        )
    if release is None and not is_vllm(observations):
        return unknown_verdict("This is not vLLM, or a proxy hides its /version and /metrics.")
    if release is None:
        return unknown_verdict("It does not say which vLLM it is (no /version, or a build without a tag).")
    name = to_sendable(str(observations.version.body["version"]))[:MAX_NAME_CHARACTERS]
    if release < SERVES_MODEL_SINCE:
        return fail_verdict(
            f"vLLM {name} is older than the first release with this model, 0.24.0.", _UPDATE_FIX
        )
    if release < RECOMMENDED_RELEASE:
        return warn_verdict(f"vLLM {name}; 0.33.0 or newer is advised.", _UPDATE_FIX)
    return pass_verdict(f"vLLM {name}.")


def judge_model(observations: Observations) -> Verdict:
    """Whether the model of the settings is served."""
    route = observations.models
    if route is None or route.status in {401, 403} or route.status >= 500:
        return unknown_verdict(f"Not told: {observations.unknown_reason('models')}.")
    names = [to_sendable(model.name) for model in parse_models(route.body)]
    if not names:
        return fail_verdict(
            f"The endpoint names no model (HTTP {route.status}).", "MODEL_URL should end in /v1"
        )
    served = ", ".join(name[:MAX_NAME_CHARACTERS] for name in names[:5])
    if observations.wanted_model is not None and observations.wanted_model not in names:
        return fail_verdict(
            f"{observations.wanted_model} is not served, but {served}.", f"MODEL_NAME={names[0]}"
        )
    return pass_verdict(f"Serves {served}.")


def judge_context(observations: Observations) -> Verdict:
    """Whether the longest prompt and its answer fit."""
    if observations.models is None or not observations.models.ok:
        return unknown_verdict(f"Not told: {observations.unknown_reason('models')}.")
    models = parse_models(observations.models.body)
    wanted_models = [model for model in models if model.name == observations.wanted_model] or models
    limit = wanted_models[0].context if wanted_models else None
    if limit is None:
        return unknown_verdict("The endpoint does not tell how long a prompt may be (no max_model_len).")
    if observations.needs_tokens is not None and limit < observations.needs_tokens:
        return warn_verdict(
            f"{limit:,} tokens are less than the longest prompt with its answer, "
            f"{observations.needs_tokens:,}.",
            f"--max-model-len {observations.needs_tokens} or more, or a smaller PROMPT_BUDGET",
        )
    return pass_verdict(f"{limit:,} tokens.")


def judge_key(observations: Observations) -> Verdict:
    """Whether a key is required where others can reach the endpoint."""
    if observations.models is None:
        return unknown_verdict(f"Not told: {observations.unknown_reason('models')}.")
    if observations.models.status in {401, 403}:
        problem = "The key is refused." if observations.has_key else "A key is wanted, and none is set."
        return fail_verdict(problem, "MODEL_API_KEY, the value of the server's --api-key")
    if observations.has_key and observations.keyless is None:
        return unknown_verdict(f"Not told: {observations.unknown_reason('key')}.")
    if observations.has_key and observations.keyless is not None and not observations.keyless.ok:
        return pass_verdict("A key is wanted for model calls; vLLM leaves /metrics and /tokenize open.")
    if _is_loopback(observations.url):
        return pass_verdict("No key is wanted, and none is needed: it was reached on this machine.")
    return warn_verdict(
        "No key is wanted, though it is reached over a network.", "--api-key, and MODEL_API_KEY here"
    )


def judge_router(observations: Observations) -> Verdict:
    """Whether the counters of every server behind a router are read."""
    if observations.silent_servers:
        return warn_verdict(
            f"No counters come from {', '.join(observations.silent_servers)}, so none are compared.",
            "the servers' own addresses in MODEL_METRICS_URLS, reachable from here",
        )
    if observations.router is None:
        return unknown_verdict(f"Not told: {observations.unknown_reason('router')}.")
    named = len(observations.servers)
    routed = _list_routed_servers(observations.router)
    if len(routed) > max(1, named):
        return warn_verdict(
            f"A vllm-router with {len(routed)} servers; the counters of {max(1, named)} are read.",
            f"MODEL_METRICS_URLS={','.join(routed)}",
        )
    if named:
        return pass_verdict(f"The counters of {named} servers are read.")
    return pass_verdict("One server, as far as it shows.")


def judge_protocol(observations: Observations) -> Verdict:
    """Whether it takes the gateway's calls, and what a server that is not vLLM lacks."""
    if "plain" not in observations.answers:
        return unknown_verdict(f"Not told: {observations.unknown_reason('plain')}.")
    response = observations.answers["plain"]
    if not response.ok:
        return fail_verdict(
            f"Model calls are refused (HTTP {response.status}): {response.error_message}",
            "what it says; MODEL_URL and MODEL_NAME",
        )
    if observations.refuses_ours is not None:
        return fail_verdict(
            f"Refuses vLLM's fields, thinking and priority among them ({observations.refuses_ours}): "
            "the gateway would get no reply.",
            "FALLBACK_URL, where the gateway sends none of them; vLLM 0.33 for MODEL_URL",
        )
    missing = list(_missing_features(observations))
    if not missing:
        return pass_verdict("Speaks vLLM's protocol.")
    return warn_verdict(
        f"Lacks {', '.join(missing)}.", "serve with vLLM 0.33, or let the proxy pass its routes and fields"
    )


def _missing_features(observations: Observations) -> Iterator[str]:
    if observations.version is not None and "version" not in observations.version.body:
        yield "/version"
    template = observations.templates.get("off")
    if template is not None and parse_count(template.body, "count") is None:
        yield "/tokenize (prompts cannot be counted before they are sent)"
    if observations.crowd is not None and observations.crowd.before is None:
        yield "/metrics (counts cannot be held against the server's)"


def _list_routed_servers(route: RouteResponse) -> list[str]:
    """The servers that a vllm-router names, each once though several of its engines are; else none."""
    urls = route.body.get("urls") if route.ok else None
    if not isinstance(urls, list):
        return []
    # An engine is named with its number: http://gpu1:8000@0.
    servers = dict.fromkeys(str(url).partition("@")[0] for url in urls[:_MAX_SERVERS])
    return [to_sendable(server)[:MAX_NAME_CHARACTERS] for server in servers]


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
