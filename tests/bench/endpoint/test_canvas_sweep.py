"""`bench direct --widths --steps` on simulated endpoints. No figure here says anything about a model."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bot.bench.endpoint import output, simulated
from bot.bench.endpoint.canvas_sweep import NO_LEDGER, LimitedSeconds, describe_savings, list_limits
from bot.bench.endpoint.direct import DirectOptions
from bot.bench.endpoint.result import BenchResult, ServerCounts
from bot.bench.endpoint.run import EndpointAddress, run
from bot.db.engine import Database
from bot.sim.vllm.server import Timing
from tests.support.bench_endpoint import build_bench_endpoint
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.terminal_text import lay_out
from tests.support.usage_rows import UsageRows

SWEEP = DirectOptions(quick=True, sweep=list_limits([64, 256], [8]))


async def measure(endpoint: ScriptedEndpoint) -> BenchResult:
    return await run(EndpointAddress("sim"), SWEEP, asyncio.Event(), lambda *_: None, endpoint)


async def test_narrower_canvases_and_fewer_steps_are_asked_for_and_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    endpoint = build_bench_endpoint(Timing.canvas(0.02))
    result = await measure(endpoint)
    rows = {row.label: row for row in result.rows if row.way == "limited"}
    assert {label: row.canvases for label, row in rows.items() if label.startswith("short")} == {
        "short, as served": 2,
        "short, canvas 64, 8 steps": 4,
        "short, canvas 256, 8 steps": 2,
    }
    assert rows["prose, canvas 64, 8 steps"].counted == ServerCounts(8, 8)
    assert [(score.thinking, score.right) for score in result.tools] == [
        ("off, as served", 2),
        ("off, canvas 64, 8 steps", 2),
        ("off, canvas 256, 8 steps", 2),
    ]
    bodies = [record.body for record in endpoint.requests]
    assert not any("vllm_xargs" in body for body in bodies[: len(bodies) // 3 + 1])
    assert bodies[-1]["vllm_xargs"] == {"diffusion_canvas_length": 256, "diffusion_max_steps": 8}
    saved, ledger = result.sentences
    assert saved.startswith("Simulated, so true of no model: ")  # what was quickest depends on the machine
    assert ledger == NO_LEDGER
    assert saved in lay_out(output.format_lines(result), width=1000)
    assert dict(result.conditions)["server's own counters"].endswith("all of them ours")
    assert result.canvas_seconds is None


async def test_two_sentences_say_what_was_saved_and_what_the_ledger_leaves_unused(
    monkeypatch: pytest.MonkeyPatch, database: Database, database_url: str
) -> None:
    ledger = UsageRows(database)
    turn = await ledger.add_turn()
    for tokens in (16, 240):
        await ledger.add_call(turn, completion_tokens=tokens)
    await ledger.add_call(turn, completion_tokens=4, purpose="decision")
    monkeypatch.setenv("DATABASE_URL", database_url)
    sweep = [LimitedSeconds("as served", 3.0, 4.0), LimitedSeconds("canvas 64", 1.5, 6.0)]
    assert await describe_savings(sweep, simulated=False) == (
        "With canvas 64 a short answer and a tool call took 1.50 s together instead of 3.00 s (-50 %), prose "
        "and code 6.00 s instead of 4.00 s.",
        "Of the 2 canvases in your ledger 49 % stayed unused, which is the most that narrower ones could "
        "leave out.",
    )


@pytest.mark.parametrize(
    "profile",
    [
        replace(ServerProfile(), version="0.31.0"),
        ServerProfile.autoregressive(),
        ServerProfile.of_server("SGLang"),
    ],
)
async def test_limits_are_not_asked_of_servers_without_canvases_or_such_limits(
    profile: ServerProfile,
) -> None:
    endpoint = ScriptedEndpoint(profile=profile, brain=simulated.answer_prompt)
    result = await measure(endpoint)
    assert result.ended == "--widths and --steps need canvases, and vLLM 0.32 or newer."
    assert not any("vllm_xargs" in record.body for record in endpoint.requests)
