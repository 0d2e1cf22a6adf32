"""The whole check against simulated endpoints: a healthy one passes clean, each fault is found and named."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest

from bot.check.client import Limits
from bot.check.command import run
from bot.check.probe import Wish
from bot.check.report import RULES
from bot.http_server import serve
from bot.sim.vllm.server import ChatRequest, Endpoint, Profile, Reply, Timing, call_text, scripted, slipping
from tests.support.endpoint_check import QUICK, check, check_at, quiet, wrong

SLOWLY = Timing.canvas(0.15)  # so slow that seats show
ORDERLY = Timing.canvas(0.3)  # so slow that their order shows, also on a busy machine


def flagged(**flags: Any) -> Endpoint:
    """An endpoint in today's profile but for these, that answers at once."""
    return Endpoint(replace(Profile.today(), **flags))


def brained(brain: Callable[[ChatRequest], str | Reply]) -> Endpoint:
    return Endpoint(brain=brain)


def when(is_meant: Callable[[ChatRequest], bool], text: str) -> Callable[[ChatRequest], str | Reply]:
    """A brain that says `text` where it is meant, and is well everywhere else."""
    return lambda request: text if is_meant(request) else scripted(request)


def faulty(kind: Any) -> Endpoint:
    endpoint = Endpoint()
    endpoint.fault(kind, times=None)
    return endpoint


def asks_for_tools(request: ChatRequest) -> bool:
    return request.body.get("tool_choice") == "auto" and not any(
        one["role"] == "tool" for one in request.messages
    )


def has_results(request: ChatRequest) -> bool:
    return any(message["role"] == "tool" for message in request.messages)


async def test_a_healthy_endpoint_passes_clean() -> None:
    report = await check(Endpoint(timing=ORDERLY, seats=4, api_key="k"), key="k", seats=4, tokens=9024)
    assert {finding.name: finding.seen for finding in report.findings if finding.status != "pass"} == {}
    assert (report.worst, report.exit_code) == ("pass", 0)
    assert report.named("seats").seen == "4 of 9 calls ran at once, the others waited."
    assert "16 denoising steps" in report.named("canvas").seen
    assert report.calls <= report.most_calls == 40
    assert report.template is not None
    assert report.stopped is None


@dataclass(frozen=True)
class Fault:
    """A broken endpoint, and the one finding that names it."""

    endpoint: Callable[[], Endpoint]
    finding: str
    status: str = "warn"
    words: str = ""
    wish: dict[str, Any] = field(default_factory=dict)


FAULTS = {
    "older release": Fault(lambda: flagged(version="0.32.1"), "version", words="0.33.0 or newer is advised"),
    "small context": Fault(lambda: Endpoint(context=8192), "context", words="9,024", wish={"tokens": 9024}),
    "another model": Fault(
        lambda: Endpoint(model="gemma"), "model", "fail", "MODEL_NAME=gemma", wish={"model": "diffusiongemma"}
    ),
    "key refused": Fault(lambda: Endpoint(api_key="k"), "key", "fail", "refused", wish={"key": "another"}),
    "key wanted": Fault(lambda: Endpoint(api_key="k"), "key", "fail", "none is set"),
    "no usage in streams": Fault(
        lambda: faulty("no_usage"), "usage in streams", "fail", "--enable-force-include-usage"
    ),
    "no usage in whole replies": Fault(lambda: flagged(whole_usage=False), "usage in whole replies"),
    "no prompt details": Fault(
        lambda: flagged(prompt_details=False), "cached tokens", words="--enable-prompt-tokens-details"
    ),
    "no reasoning details": Fault(lambda: flagged(reasoning_details=False), "reasoning tokens"),
    "no request metrics": Fault(
        lambda: flagged(request_metrics=False), "server timings", words="--enable-per-request-metrics"
    ),
    "no tool parser": Fault(
        lambda: flagged(tool_parser=False),
        "tool calls",
        "fail",
        "--enable-auto-tool-choice --tool-call-parser gemma4",
    ),
    "call as text": Fault(
        lambda: brained(slipping(scripted, 1, slips=["call without its opener"])),
        "tool calls",
        "fail",
        "came as text",
    ),
    "call with other arguments": Fault(
        lambda: brained(when(asks_for_tools, call_text("check_weather", {"town": "Paris"}))),
        "tool calls",
        "fail",
        "not what was declared",
    ),
    "a key twice": Fault(
        lambda: brained(slipping(scripted, 1, slips=["key twice"])),
        "tool calls",
        "fail",
        "tools: its arguments are no",
    ),
    "unknown tool": Fault(
        lambda: brained(slipping(scripted, 1, slips=["unknown name"])), "tool calls", "fail", "nobody offered"
    ),
    "no call": Fault(
        lambda: brained(when(asks_for_tools, "It rains.")), "tool calls", words="answered without a call"
    ),
    "one call at a time": Fault(
        lambda: brained(when(asks_for_tools, call_text("check_weather", {"place": "Paris"}))),
        "parallel calls",
    ),
    "thinking cannot be switched on": Fault(
        lambda: flagged(thinking_switch=False), "thinking switch", "fail", "same prompt"
    ),
    "thinking cannot be switched off": Fault(
        lambda: flagged(thinking_switch=False, thinking=True), "thinking switch", "fail", "--chat-template"
    ),
    "thinks though told not to": Fault(
        lambda: brained(
            when(lambda request: "ready" in request.asked[-1], "<|channel>thought\nAm I?\n<channel|>ready")
        ),
        "thinking switch",
        "fail",
        "told not to",
    ),
    "thinks by default": Fault(
        lambda: flagged(thinking=True), "thinking by default", words="--default-chat-template-kwargs"
    ),
    "no reasoning parser": Fault(
        lambda: flagged(reasoning_parser=False), "thoughts apart", "fail", "--reasoning-parser gemma4"
    ),
    "answer as thought": Fault(
        lambda: brained(when(has_results, "So it is done.")), "answers apart", words="vllm#49717"
    ),
    "answers as thoughts": Fault(
        lambda: brained(slipping(scripted, 1, slips=["answer as thought"])),
        "answers apart",
        words="plain; counting",
    ),
    "empty answer": Fault(
        lambda: brained(when(lambda request: "ready" in request.asked[-1], "")), "answers apart"
    ),
    "a template that drops empty thoughts": Fault(
        lambda: flagged(keeps_empty_thoughts=False), "template", words="vllm#57610"
    ),
    "a tokenizer that drops what defuses": Fault(lambda: flagged(defuses=False), "control tokens", "fail"),
    "hidden cap": Fault(lambda: flagged(output_cap=256), "reply length", "fail", "cut after 256 tokens"),
    "temperature taken": Fault(
        lambda: flagged(diffusion_checks=False), "temperature", words="no DiffusionGemma"
    ),
    "a token a block": Fault(lambda: flagged(canvas=1), "canvas", words="No diffusion model"),
    "a short canvas": Fault(lambda: flagged(canvas=64), "canvas", words="a canvas is 64 tokens"),
    "no prefix cache": Fault(lambda: flagged(prefix_cache=False), "prefix cache", words="prefix-caching"),
    "text only": Fault(lambda: flagged(pictures=False), "pictures", words="not a multimodal model"),
    "no typed reads": Fault(lambda: flagged(logprobs=False), "typed reads", words="--logprobs-mode"),
    "short queue": Fault(
        lambda: Endpoint(replace(Profile.today(), max_queued=4), SLOWLY),
        "seats",
        words="--max-num-queued-reqs",
    ),
    "fewer seats": Fault(
        lambda: Endpoint(timing=SLOWLY, seats=2), "seats", words="MODEL_SEATS=2", wish={"seats": 4}
    ),
    "no priority": Fault(
        lambda: Endpoint(replace(Profile.today(), by_priority=False), ORDERLY, seats=4),
        "priority",
        words="--scheduling-policy priority",
    ),
    "seats of the gone": Fault(
        lambda: Endpoint(replace(Profile.today(), frees_on_abort=False), SLOWLY), "abort", "fail", "/stop"
    ),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_a_fault_is_found_and_named_and_nothing_else_is(fault: Fault) -> None:
    report = await check(fault.endpoint(), **fault.wish)
    assert wrong(report) == {fault.finding: fault.status}
    finding = report.named(fault.finding)
    assert fault.words in f"{finding.seen} {finding.mend}"
    assert finding.mend
    assert report.exit_code == (1 if fault.status == "fail" else 3)
    assert report.calls <= 40


def test_every_finding_but_those_about_the_wire_has_a_fault_that_shows_it() -> None:
    assert {rule.name for rule in RULES} - {fault.finding for fault in FAULTS.values()} == {
        "reachable",
        "protocol",
    }


async def test_the_preview_image_is_known_by_its_faults() -> None:
    report = await check(Endpoint(Profile.preview()))
    assert wrong(report).keys() >= {"version", "tool calls", "thoughts apart", "reply length", "temperature"}
    assert report.named("version").status == "fail"
    assert report.exit_code == 1


async def test_empty_turns_are_named_where_they_were_seen_and_judged_for_nothing_else() -> None:
    report = await check(brained(slipping(scripted, 1, slips=["empty turn"])))
    assert wrong(report) == {"tool calls": "warn", "answers apart": "warn"}


async def test_of_a_server_that_is_not_vllm_it_is_told_what_it_lacks() -> None:
    report = await check(Endpoint(Profile.hosted_api()))
    told = report.named("protocol").seen
    for lacking in ("/version", "/tokenize", "/metrics", "thinking"):
        assert lacking in told
    assert report.named("tool calls").status == report.named("usage in streams").status == "pass"
    assert wrong(report) == dict.fromkeys(
        ["protocol", "server timings", "temperature", "canvas", "typed reads"], "warn"
    )
    assert report.named("thinking switch").status == "unknown"


@pytest.mark.parametrize("kind", ["crash", "reset", "error_line"])
@pytest.mark.parametrize("after", [0, 1, 5])
async def test_an_endpoint_that_dies_half_way_leaves_the_rest_unknown(kind: Any, after: int) -> None:
    endpoint = Endpoint()
    dying = iter(range(after))

    def brain(request: ChatRequest) -> str | Reply:
        if next(dying, None) is None:
            endpoint.fault(kind, times=None)
            return Reply("", crash=True)
        return scripted(request)

    endpoint.brain = brain
    report = await check(endpoint)
    assert report.exit_code == 1
    assert report.stopped is not None
    assert "went away after" in report.named("reachable").seen
    seats = report.named("seats")
    assert seats.status == "unknown"
    assert "went away after" in seats.seen
    assert report.named("version").status == "pass"
    assert "reachable" in wrong(report)


async def test_one_lost_call_is_told_and_the_check_goes_on() -> None:
    endpoint = Endpoint()
    endpoint.fault("reset", times=1)
    report = await check(endpoint)
    assert wrong(report) == {"reachable": "warn"}
    assert (
        "calls came to nothing: it cut the connection, when asked for: plain"
        in report.named("reachable").seen
    )
    assert report.named("typed reads").status == "pass"


async def test_a_silent_endpoint_does_not_hold_the_check() -> None:
    endpoint = Endpoint()
    endpoint.fault("silent", times=None)
    report = await check(endpoint, limits=replace(QUICK, call_seconds=0.05))
    assert report.named("reachable").status == "fail"
    assert "no answer within 0.05 s" in report.named("tool calls").seen
    assert report.named("version").status == "pass"


async def test_a_process_that_is_gone_is_told_from_one_that_stumbles() -> None:
    endpoint = Endpoint()

    def brain(request: ChatRequest) -> str | Reply:
        endpoint.refuse(60)
        return Reply("", crash=True)

    endpoint.brain = brain
    report = await check(endpoint)
    assert wrong(report) == {"reachable": "fail"}
    assert "went away after" in report.named("reachable").seen


async def test_an_endpoint_that_takes_no_call_fails_with_its_words() -> None:
    report = await check(Endpoint(context=300))
    assert wrong(report) == {"protocol": "fail"}
    assert "maximum context length is 300 tokens" in report.named("protocol").seen
    assert report.named("tool calls").seen == "No call was asked for: the first model call was refused."


async def test_an_endpoint_that_is_up_and_answers_nothing_is_left() -> None:
    report = await check(faulty("error_line"))
    assert wrong(report) == {"reachable": "fail"}
    assert "stopped answering after" in report.named("reachable").seen
    assert report.named("template").status == "pass"


async def test_a_loading_endpoint_is_not_ready() -> None:
    endpoint = Endpoint()
    endpoint.loading(60)
    report = await check(endpoint)
    assert wrong(report) == {"reachable": "fail"}
    assert "not ready (HTTP 503)" in report.named("reachable").seen
    assert report.calls == 2


async def test_where_nothing_listens_that_is_all_there_is_to_say() -> None:
    async with serve(Endpoint().app) as url:
        pass
    report = await check_at(url)
    assert wrong(report) == {"reachable": "fail"}
    assert report.named("reachable").mend
    assert {finding.status for finding in report.findings} == {"fail", "unknown"}


async def test_no_more_calls_are_made_than_allowed() -> None:
    endpoint = Endpoint()
    report = await check(endpoint, limits=Limits(calls=12))
    assert report.calls == 12
    assert len(endpoint.requests) < 12
    assert "all 12 calls" in report.named("typed reads").seen
    assert wrong(report) == {}
    assert report.exit_code == 4


async def test_a_check_that_is_interrupted_tells_what_it_knows() -> None:
    endpoint, stop = Endpoint(), asyncio.Event()
    async with serve(endpoint.app) as url, asyncio.TaskGroup() as tasks:
        checking = tasks.create_task(run(Wish(f"{url}/v1", limits=QUICK), quiet, stop))
        await endpoint.until(lambda: len(endpoint.requests) == 3)
        endpoint.hold()
        stop.set()
        report = await checking
    assert report.stopped == "the check was interrupted"
    assert report.named("version").status == report.named("template").status == "pass"
    assert report.named("seats").seen == "Not tried: the check was interrupted."
    assert report.exit_code == 4


async def test_others_at_the_endpoint_are_not_taken_for_its_seats() -> None:
    endpoint = Endpoint(timing=SLOWLY, seats=4)
    body = {"messages": [{"role": "user", "content": "@@loop:on and on @@"}], "max_tokens": 60_000}
    async with (
        serve(endpoint.app) as url,
        httpx.AsyncClient(timeout=60) as other,
        asyncio.TaskGroup() as tasks,
    ):
        task = tasks.create_task(other.post(f"{url}/v1/chat/completions", json=body))
        await endpoint.until(lambda: endpoint.running == 1)
        report = await check_at(url)
        task.cancel()
    for name in ("seats", "priority", "abort"):
        assert report.named(name).status == "unknown"
        assert "Others are using" in report.named(name).seen
    assert wrong(report) == {}
