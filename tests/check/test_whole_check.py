"""The whole check against simulated endpoints: a healthy one passes clean, each fault is found and named."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot.check.client import CheckLimits
from bot.check.probe import CheckOptions, run_check
from bot.check.report import RULES
from bot.http_server import serve
from bot.sim.vllm.server import ChatRequest, Timing, format_tool_call
from tests.support.endpoint.server import (
    ScriptedEndpoint,
    ScriptedReply,
    ServerProfile,
    scripted_brain,
    with_model_faults,
)
from tests.support.endpoint_check import (
    LOAD_LIMITS,
    QUICK_LIMITS,
    build_crowded_endpoint,
    build_endpoint,
    check_endpoint,
    check_url,
    ignore_progress,
    problem_statuses,
)


def endpoint_with_flags(**flags: Any) -> ScriptedEndpoint:
    """An endpoint in today's profile but for these, that answers at once."""
    return build_endpoint(replace(ServerProfile(), **flags))


def endpoint_with_brain(brain: Callable[[ChatRequest], str | ScriptedReply]) -> ScriptedEndpoint:
    return build_endpoint(brain=brain)


def reply_when(
    is_meant: Callable[[ChatRequest], bool], text: str
) -> Callable[[ChatRequest], str | ScriptedReply]:
    """A brain that says `text` where it is meant, and is well everywhere else."""
    return lambda request: text if is_meant(request) else scripted_brain(request)


def faulty_endpoint(kind: Any) -> ScriptedEndpoint:
    endpoint = build_endpoint()
    endpoint.inject_fault(kind, times=None)
    return endpoint


def asks_for_tools(request: ChatRequest) -> bool:
    return request.body.get("tool_choice") == "auto" and not any(
        message["role"] == "tool" for message in request.messages
    )


def has_results(request: ChatRequest) -> bool:
    return any(message["role"] == "tool" for message in request.messages)


async def test_a_healthy_endpoint_passes_clean() -> None:
    report = await check_endpoint(
        build_crowded_endpoint(api_key="k"), key="k", seats=4, tokens=9024, limits=LOAD_LIMITS
    )
    assert {finding.name: finding.seen for finding in report.findings if finding.status != "pass"} == {}
    assert (report.worst, report.exit_code) == ("pass", 0)
    assert report.get_finding("seats").seen == "4 of 9 calls ran at once, the others waited."
    assert "16 denoising steps" in report.get_finding("output").seen
    assert report.calls <= report.max_calls == 40
    assert report.template is not None
    assert report.stopped is None


async def test_gemma_4_passes_without_a_word_of_canvases() -> None:
    endpoint = build_endpoint(
        ServerProfile.autoregressive(), timing=Timing.canvas(0.001), model="gemma-4-26b-a4b-it"
    )
    report = await check_endpoint(endpoint, tokens=9024)
    assert problem_statuses(report) == {}
    assert "Token by token" in report.get_finding("output").seen
    texts = [f"{finding.name} {finding.seen} {finding.meaning}" for finding in report.findings]
    assert not [text for text in texts if "canvas" in text.lower()]
    assert endpoint.requests[-1].status == 200


@dataclass(frozen=True)
class FaultCase:
    """A broken endpoint, and the one finding that names it."""

    endpoint: Callable[[], ScriptedEndpoint]
    finding: str
    status: str = "warn"
    text: str = ""
    options: dict[str, Any] = field(default_factory=dict)


FAULTS = {
    "older release": FaultCase(
        lambda: endpoint_with_flags(version="0.32.1"), "version", text="0.33.0 or newer is advised"
    ),
    "small context": FaultCase(
        lambda: build_endpoint(context=8192), "context", text="9,024", options={"tokens": 9024}
    ),
    "another model": FaultCase(
        lambda: build_endpoint(model="gemma"),
        "model",
        "fail",
        "MODEL_NAME=gemma",
        options={"model": "diffusiongemma"},
    ),
    "key refused": FaultCase(
        lambda: build_endpoint(api_key="k"), "key", "fail", "refused", options={"key": "another"}
    ),
    "key wanted": FaultCase(lambda: build_endpoint(api_key="k"), "key", "fail", "none is set"),
    "no usage in streams": FaultCase(
        lambda: faulty_endpoint("no_usage"), "usage in streams", "fail", "--enable-force-include-usage"
    ),
    "no usage in whole replies": FaultCase(
        lambda: endpoint_with_flags(whole_usage=False), "usage in whole replies"
    ),
    "no prompt details": FaultCase(
        lambda: endpoint_with_flags(prompt_details=False),
        "cached tokens",
        text="--enable-prompt-tokens-details",
    ),
    "no reasoning details": FaultCase(
        lambda: endpoint_with_flags(reasoning_details=False), "reasoning tokens"
    ),
    "no request metrics": FaultCase(
        lambda: endpoint_with_flags(request_metrics=False),
        "server timings",
        text="--enable-per-request-metrics",
    ),
    "no tool parser": FaultCase(
        lambda: endpoint_with_flags(tool_parser=False),
        "tool calls",
        "fail",
        "--enable-auto-tool-choice --tool-call-parser gemma4",
    ),
    "call as text": FaultCase(
        lambda: endpoint_with_brain(
            with_model_faults(scripted_brain, 1, fault_names=["call without its opener"])
        ),
        "tool calls",
        "fail",
        "came as text",
    ),
    "call with other arguments": FaultCase(
        lambda: endpoint_with_brain(
            reply_when(asks_for_tools, format_tool_call("check_weather", {"town": "Paris"}))
        ),
        "tool calls",
        "fail",
        "not what was declared",
    ),
    "a key twice": FaultCase(
        lambda: endpoint_with_brain(with_model_faults(scripted_brain, 1, fault_names=["key twice"])),
        "tool calls",
        "fail",
        "tools: its arguments are no",
    ),
    "unknown tool": FaultCase(
        lambda: endpoint_with_brain(with_model_faults(scripted_brain, 1, fault_names=["unknown name"])),
        "tool calls",
        "fail",
        "nobody offered",
    ),
    "no call": FaultCase(
        lambda: endpoint_with_brain(reply_when(asks_for_tools, "It rains.")),
        "tool calls",
        text="answered without a call",
    ),
    "one call at a time": FaultCase(
        lambda: endpoint_with_brain(
            reply_when(asks_for_tools, format_tool_call("check_weather", {"place": "Paris"}))
        ),
        "parallel calls",
    ),
    "thinking cannot be switched on": FaultCase(
        lambda: endpoint_with_flags(thinking_switch=False), "thinking switch", "fail", "same prompt"
    ),
    "thinking cannot be switched off": FaultCase(
        lambda: endpoint_with_flags(thinking_switch=False, thinking=True),
        "thinking switch",
        "fail",
        "--chat-template",
    ),
    "thinks though told not to": FaultCase(
        lambda: endpoint_with_brain(
            reply_when(
                lambda request: "ready" in request.user_texts[-1], "<|channel>thought\nAm I?\n<channel|>ready"
            )
        ),
        "thinking switch",
        "fail",
        "told not to",
    ),
    "thinks by default": FaultCase(
        lambda: endpoint_with_flags(thinking=True),
        "thinking by default",
        text="--default-chat-template-kwargs",
    ),
    "no reasoning parser": FaultCase(
        lambda: endpoint_with_flags(reasoning_parser=False),
        "thoughts apart",
        "fail",
        "--reasoning-parser gemma4",
    ),
    "answer as thought": FaultCase(
        lambda: endpoint_with_brain(reply_when(has_results, "So it is done.")),
        "answers apart",
        text="vllm#49717",
    ),
    "answers as thoughts": FaultCase(
        lambda: endpoint_with_brain(with_model_faults(scripted_brain, 1, fault_names=["answer as thought"])),
        "answers apart",
        text="plain; counting",
    ),
    "empty answer": FaultCase(
        lambda: endpoint_with_brain(reply_when(lambda request: "ready" in request.user_texts[-1], "")),
        "answers apart",
    ),
    "a template that drops empty thoughts": FaultCase(
        lambda: endpoint_with_flags(keeps_empty_thoughts=False), "template", text="vllm#57610"
    ),
    "a tokenizer that drops what defuses": FaultCase(
        lambda: endpoint_with_flags(defuses=False), "control tokens", "fail"
    ),
    "hidden cap": FaultCase(
        lambda: endpoint_with_flags(output_cap=256), "reply length", "fail", "cut after 256 tokens"
    ),
    "temperature taken": FaultCase(
        lambda: endpoint_with_flags(diffusion_checks=False), "temperature", text="no DiffusionGemma"
    ),
    "a default top_p": FaultCase(
        lambda: endpoint_with_flags(default_top_p=0.95), "output", text="48 denoising steps each"
    ),
    "a short canvas": FaultCase(
        lambda: endpoint_with_flags(canvas=64), "output", text="a canvas is 64 tokens"
    ),
    "no prefix cache": FaultCase(
        lambda: endpoint_with_flags(prefix_cache=False), "prefix cache", text="prefix-caching"
    ),
    "text only": FaultCase(
        lambda: endpoint_with_flags(pictures=False), "pictures", text="not a multimodal model"
    ),
    "text only, like llama.cpp": FaultCase(
        lambda: endpoint_with_flags(pictures=False, refuses_with_500=True),
        "pictures",
        text="(HTTP 500): image input is not supported",
    ),
    "no typed reads": FaultCase(
        lambda: endpoint_with_flags(logprobs=False), "typed reads", text="--logprobs-mode"
    ),
    "short queue": FaultCase(
        lambda: build_crowded_endpoint(replace(ServerProfile(), max_queued=4), seats=8),
        "seats",
        text="--max-num-queued-reqs",
        options={"limits": LOAD_LIMITS},
    ),
    "fewer seats": FaultCase(
        lambda: build_crowded_endpoint(seats=2),
        "seats",
        text="MODEL_SEATS=2",
        options={"seats": 4, "limits": LOAD_LIMITS},
    ),
    "no priority": FaultCase(
        lambda: build_crowded_endpoint(replace(ServerProfile(), by_priority=False)),
        "priority",
        text="--scheduling-policy priority",
        options={"limits": LOAD_LIMITS},
    ),
    "seats of the gone": FaultCase(
        lambda: build_crowded_endpoint(replace(ServerProfile(), frees_on_abort=False), seats=16),
        "abort",
        "fail",
        "/stop",
        options={"limits": LOAD_LIMITS},
    ),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_a_fault_is_found_and_named_and_nothing_else_is(fault: FaultCase) -> None:
    report = await check_endpoint(fault.endpoint(), **fault.options)
    assert problem_statuses(report) == {fault.finding: fault.status}
    finding = report.get_finding(fault.finding)
    assert fault.text in f"{finding.seen} {finding.mend}"
    assert finding.mend
    assert report.exit_code == (1 if fault.status == "fail" else 3)
    assert report.calls <= 40


def test_every_finding_except_those_about_the_connection_has_a_fault_that_shows_it() -> None:
    assert {rule.name for rule in RULES} - {fault.finding for fault in FAULTS.values()} == {
        "reachable",
        "protocol",
        "router",  # tests/check/test_router.py
    }


async def test_the_preview_image_is_known_by_its_faults() -> None:
    report = await check_endpoint(build_endpoint(ServerProfile.preview()))
    assert problem_statuses(report).keys() >= {
        "version",
        "tool calls",
        "thoughts apart",
        "reply length",
        "temperature",
    }
    assert report.get_finding("version").status == "fail"
    assert report.exit_code == 1


async def test_empty_turns_are_named_where_they_were_seen_and_judged_for_nothing_else() -> None:
    report = await check_endpoint(
        endpoint_with_brain(with_model_faults(scripted_brain, 1, fault_names=["empty turn"]))
    )
    assert problem_statuses(report) == {"tool calls": "warn", "answers apart": "warn"}


async def test_what_is_open_without_the_key_is_judged_without_it() -> None:
    report = await check_endpoint(build_endpoint(api_key="k"))
    for name in ("version", "template", "control tokens", "thinking by default"):
        assert report.get_finding(name).status == "pass"
    assert report.get_finding("tool calls").seen == "No call was asked for: a key is wanted."


async def test_a_prompt_that_was_refused_is_not_said_to_be_unasked() -> None:
    report = await check_endpoint(endpoint_with_flags(tool_parser=False))
    assert report.get_finding("prefix cache").seen == "The prompt that is sent twice was refused (HTTP 400)."


async def test_a_server_that_refuses_vllms_fields_fails_as_the_gateway_would() -> None:
    report = await check_endpoint(build_endpoint(ServerProfile.hosted_api()))
    assert report.exit_code == 1
    protocol = report.get_finding("protocol")
    assert "Refuses vLLM's fields, thinking and priority among them" in protocol.seen
    assert "the gateway would get no reply" in protocol.seen
    assert "FALLBACK_URL" in str(protocol.mend)
    assert report.get_finding("tool calls").status == report.get_finding("usage in streams").status == "pass"
    warned_of = ["server timings", "typed reads"]
    assert problem_statuses(report) == {"protocol": "fail", **dict.fromkeys(warned_of, "warn")}
    assert report.get_finding("thinking switch").status == "unknown"


@pytest.mark.parametrize(("kind", "after"), [("crash", 0), ("crash", 5), ("reset", 1), ("error_line", 1)])
async def test_an_endpoint_that_dies_half_way_leaves_the_rest_unknown(kind: Any, after: int) -> None:
    endpoint = build_endpoint()
    dying = iter(range(after))

    def brain(request: ChatRequest) -> str | ScriptedReply:
        if next(dying, None) is None:
            endpoint.inject_fault(kind, times=None)
            return ScriptedReply("", crashes_engine=True)
        return scripted_brain(request)

    endpoint.brain = brain
    report = await check_endpoint(endpoint)
    assert report.exit_code == 1
    assert report.stopped is not None
    assert "went away after" in report.get_finding("reachable").seen
    seats = report.get_finding("seats")
    assert seats.status == "unknown"
    assert "went away after" in seats.seen
    assert report.get_finding("version").status == "pass"
    assert "reachable" in problem_statuses(report)


async def test_one_lost_call_is_a_finding_and_the_check_continues() -> None:
    endpoint = build_endpoint()
    endpoint.inject_fault("reset", times=1)
    report = await check_endpoint(endpoint)
    assert problem_statuses(report) == {"reachable": "warn"}
    assert (
        "calls came to nothing: it cut the connection, when asked for: plain"
        in report.get_finding("reachable").seen
    )
    assert report.get_finding("typed reads").status == "pass"


async def test_a_silent_endpoint_does_not_hold_the_check() -> None:
    endpoint = build_endpoint()
    endpoint.inject_fault("silent", times=None)
    report = await check_endpoint(endpoint, limits=replace(QUICK_LIMITS, call_seconds=0.05))
    assert report.get_finding("reachable").status == "fail"
    assert "no answer within 0.05 s" in report.get_finding("tool calls").seen
    assert report.get_finding("version").status == "pass"


async def test_a_process_that_is_gone_is_distinguished_from_a_single_failure() -> None:
    endpoint = build_endpoint()

    def brain(request: ChatRequest) -> str | ScriptedReply:
        endpoint.refuse_connections(60)
        return ScriptedReply("", crashes_engine=True)

    endpoint.brain = brain
    report = await check_endpoint(endpoint)
    assert problem_statuses(report) == {"reachable": "fail"}
    assert "went away after" in report.get_finding("reachable").seen


async def test_an_endpoint_that_takes_no_call_fails_with_its_words() -> None:
    report = await check_endpoint(build_endpoint(context=300))
    assert problem_statuses(report) == {"protocol": "fail"}
    assert "maximum context length is 300 tokens" in report.get_finding("protocol").seen
    assert report.get_finding("tool calls").seen == "No call was asked for: the first model call was refused."


async def test_an_endpoint_that_is_up_and_answers_nothing_is_left() -> None:
    report = await check_endpoint(faulty_endpoint("error_line"))
    assert problem_statuses(report) == {"reachable": "fail"}
    assert "stopped answering after" in report.get_finding("reachable").seen
    assert report.get_finding("template").status == "pass"


async def test_a_loading_endpoint_is_not_ready() -> None:
    endpoint = build_endpoint()
    endpoint.simulate_loading(60)
    report = await check_endpoint(endpoint)
    assert problem_statuses(report) == {"reachable": "fail"}
    assert "not ready (HTTP 503)" in report.get_finding("reachable").seen
    assert report.calls == 2


async def test_where_nothing_listens_that_is_all_there_is_to_say() -> None:
    async with serve(build_endpoint().app) as url:
        pass
    report = await check_url(url)
    assert problem_statuses(report) == {"reachable": "fail"}
    assert report.get_finding("reachable").mend
    assert {finding.status for finding in report.findings} == {"fail", "unknown"}


async def test_no_more_calls_are_made_than_allowed() -> None:
    endpoint = build_endpoint()
    report = await check_endpoint(endpoint, limits=CheckLimits(max_calls=12))
    assert report.calls == 12
    assert len(endpoint.requests) < 12
    assert "all 12 calls" in report.get_finding("typed reads").seen
    assert problem_statuses(report) == {}
    assert report.exit_code == 4


async def test_a_check_that_is_interrupted_tells_what_it_knows() -> None:
    endpoint = build_endpoint()
    stop = asyncio.Event()
    async with serve(endpoint.app) as url, asyncio.TaskGroup() as tasks:
        checking = tasks.create_task(
            run_check(CheckOptions(f"{url}/v1", limits=QUICK_LIMITS), ignore_progress, stop)
        )
        await endpoint.wait_until(lambda: len(endpoint.requests) == 3)
        endpoint.hold()
        stop.set()
        report = await checking
    assert report.stopped == "the check was interrupted"
    assert report.get_finding("version").status == report.get_finding("template").status == "pass"
    assert report.get_finding("seats").seen == "Not tried: the check was interrupted."
    assert report.exit_code == 4


async def test_calls_refused_within_their_stream_are_counted_with_those_refused_outright() -> None:
    report = await check_endpoint(
        build_crowded_endpoint(replace(ServerProfile(), max_queued=4), seats=8), limits=LOAD_LIMITS
    )
    # Four queue; where the machine is very slow, one may end before the last one comes.
    assert re.match(r"[345] of 9 calls at once were refused with HTTP 503", report.get_finding("seats").seen)


@dataclass
class EarlyGaugesServer:
    """Counts one call too few at the first look that finds some waiting, as between two steps."""

    app: ASGIApp
    is_early: bool = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_early(message: Message) -> None:
            page = message.get("body", b"")
            waiting = re.search(rb"vllm:num_requests_waiting{.*} ([1-9])", page)
            if waiting is not None and self.is_early:
                self.is_early = False
                message = {**message, "body": re.sub(rb"(:num_requests_running{.*}) 4", rb"\1 3", page)}
            await send(message)

        await self.app(scope, receive, send_early if scope["path"] == "/metrics" else send)


async def test_a_look_between_two_calls_is_not_taken_for_the_seats() -> None:
    server = EarlyGaugesServer(build_crowded_endpoint().app)
    async with serve(server) as url:
        report = await check_url(url, seats=4, limits=LOAD_LIMITS)
    assert not server.is_early
    assert report.get_finding("seats").seen == "4 of 9 calls ran at once, the others waited."
    assert problem_statuses(report) == {}


async def test_others_at_the_endpoint_are_not_taken_for_its_seats() -> None:
    endpoint = build_endpoint()
    endpoint.inject_fault("silent")  # another's call, which goes on for as long as it may
    body = {"messages": [{"role": "user", "content": "@@say:hello@@"}]}
    async with (
        serve(endpoint.app) as url,
        httpx.AsyncClient(timeout=None) as other_client,
        asyncio.TaskGroup() as tasks,
    ):
        task = tasks.create_task(other_client.post(f"{url}/v1/chat/completions", json=body))
        await endpoint.wait_until(lambda: endpoint.running == 1)
        report = await check_url(url)
        task.cancel()
    for name in ("seats", "priority", "abort"):
        assert report.get_finding(name).status == "unknown"
        assert "Others are using" in report.get_finding(name).seen
    assert problem_statuses(report) == {}
