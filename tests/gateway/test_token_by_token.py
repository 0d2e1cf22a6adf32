"""A model server without canvases, such as vLLM with Gemma 4: all is answered, and shown in tokens."""

import asyncio
import re
from pathlib import Path

import pytest

from bot.bench.endpoint import output, simulated
from bot.bench.endpoint.direct import DirectOptions
from bot.bench.endpoint.run import EndpointAddress
from bot.bench.endpoint.run import run as run_direct_bench
from bot.db.engine import open_database
from bot.demo import command as demo_command
from bot.http_server import serve
from bot.sim.vllm.server import Timing
from bot.translations.translator import LANGUAGES
from bot.usage.query_args import GROUPINGS
from bot.usage.reconcile import CountersEndpoint, Reconciliation
from bot.usage.report_command import ReportOptions, render_report, render_turn
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.gateway import ADMIN, GatewayHarness, name_noon_zone, open_harness
from tests.support.terminal_text import lay_out

MODEL = "gemma-4-26b-a4b-it"
CANVAS = re.compile(r"canvas(?!gram)|холст|画布", re.IGNORECASE)  # as the catalogues of all languages have it
FAMILY = -1001000000001
COMMANDS = (
    *("/usage", "/usage all", "/usage 7d", "/limits", "/limits x", "/context", "/groups", "/groups x"),
    *("/groups Family", "/groups Family limit 50000", "/groups Family limit x", "/help", "/status"),
)
QUESTION = "@@think:hm, a thought of some length@@@@say:A reply of nine words comes token by token.@@"


async def ignore_notice(*_: object) -> None:
    """No admin is told anything."""


async def take_reading(gateway: GatewayHarness) -> None:
    """Read the counters now: the gateway does so at its start, at a moment that a test does not know."""
    url = gateway.settings.database_url
    async with open_database(url) as database:
        await Reconciliation(
            database, CountersEndpoint(gateway.settings.model_url), ignore_notice
        ).take_reading()


async def ask(gateway: GatewayHarness, text: str) -> str:
    count = len(gateway.texts())
    gateway.ann.send(text)
    return (await gateway.wait_for_texts(count + 1))[-1]


async def test_everything_is_shown_in_tokens(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    endpoint = ScriptedEndpoint(ServerProfile.autoregressive(), Timing.canvas(0.001), model=MODEL)
    async with open_harness(tmp_path, endpoint, thinking="on", time_zone=name_noon_zone()) as gateway:
        await take_reading(gateway)
        async with gateway.run():
            gateway.ann.send(QUESTION)
            await gateway.api.wait_until(lambda: gateway.texts() and gateway.is_finished())
            assert gateway.texts() == ["A reply of nine words comes token by token."]
            tokens = endpoint.generated_tokens
            usage = await ask(gateway, "/usage")
            assert usage.splitlines()[0].endswith(f", {tokens} tokens")
            ranking = await ask(gateway, "/usage all")
            assert "People, tokens in 30 d:" in ranking
            limits = [await ask(gateway, text) for text in (f"/limits {ADMIN} 50000", "/limits", "/limits x")]
            assert limits[0] == f"Ann · {ADMIN}: 50,176 tokens a day."
            assert limits[1].startswith("You've used 256 of today's 50,176 tokens (estimated).")
            url = gateway.settings.database_url
            by_thinking = lay_out(await render_report(url, ReportOptions(by="thinking"), now=0.0))
            assert f"about {tokens} tokens" in by_thinking
            lists = [ReportOptions(what="calls"), ReportOptions(what="turns"), ReportOptions(what="readings")]
            reports = [*(ReportOptions(by=by) for by in GROUPINGS), *lists]
            reported = [lay_out(await render_report(url, options, now=0.0)) for options in reports]
            turn = lay_out(await render_turn(url, "1", with_texts=False, as_json=False, now=0.0))
            for text in (usage, ranking, *limits, by_thinking, *reported, turn):
                assert not CANVAS.search(text), text
    assert not [line for line in caplog.messages if CANVAS.search(line)]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_no_language_has_its_word_of_a_canvas(tmp_path: Path, language: str):
    endpoint = ScriptedEndpoint(ServerProfile.autoregressive(), Timing.canvas(0.001), model=MODEL)
    async with open_harness(tmp_path, endpoint, time_zone=name_noon_zone()) as gateway:
        await take_reading(gateway)
        async with gateway.run():
            gateway.api.add_group(FAMILY, "Family", owner=gateway.ann)
            await ask(gateway, f"/language {language}")
            await ask(gateway, QUESTION)
            for text in COMMANDS:
                answer = await ask(gateway, text)
                assert not CANVAS.search(answer), answer


async def test_the_demo_shows_tokens():
    endpoint = ScriptedEndpoint(ServerProfile.autoregressive(), Timing.canvas(0.001), model=MODEL)
    lines: list[str] = []
    async with serve(endpoint.app) as url:
        await demo_command.run(
            asyncio.Event(), model_url=f"{url}/v1", say=QUESTION, port=0, echo=lines.append
        )
    assert "tokens in" in lines[-2]
    assert not CANVAS.search("\n".join(lines)), lines


async def test_the_bench_shows_tokens():
    endpoint = ScriptedEndpoint(
        ServerProfile.autoregressive(), Timing.instant(), brain=simulated.answer_prompt
    )
    async with serve(endpoint.app) as url:
        address = EndpointAddress(f"{url}/v1")
        result = await run_direct_bench(address, DirectOptions(quick=True), asyncio.Event(), lambda *_: None)
    assert result.exit_code == 0
    shown = f"{lay_out(output.format_lines(result, compare=True))}\n{lay_out(output.format_markdown(result))}"
    assert output.NOTHING_PUBLISHED in shown
    assert not CANVAS.search(shown), shown
