"""A model server without canvases, such as vLLM with Gemma 4: all is answered, and shown in tokens."""

import re
from pathlib import Path

from bot.db.engine import open_database
from bot.sim.vllm.server import Profile, SimulatedEndpoint, Timing
from bot.usage.reconcile import CountersEndpoint, Reconciliation
from bot.usage.report_command import ReportOptions, render_report, render_turn
from tests.support.gateway import ADMIN, GatewayHarness, name_noon_zone, open_harness
from tests.support.terminal_text import lay_out

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


async def test_everything_is_shown_in_tokens(tmp_path: Path):
    endpoint = SimulatedEndpoint(Profile.autoregressive(), Timing.canvas(0.001), model="gemma-4-26b-a4b-it")
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
            context = await ask(gateway, "/context")
            url = gateway.settings.database_url
            report = lay_out(await render_report(url, ReportOptions(by="thinking"), now=0.0))
            assert f"about {tokens} tokens" in report
            ranked = lay_out(await render_report(url, ReportOptions(what="calls"), now=0.0))
            turn = lay_out(await render_turn(url, "1", with_texts=False, as_json=False, now=0.0))
            for text in (usage, ranking, *limits, context, report, ranked, turn):
                assert not re.search(r"canvas(?!gram)", text, re.IGNORECASE), text
