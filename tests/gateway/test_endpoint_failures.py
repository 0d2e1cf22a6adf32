"""Whatever the endpoint does, the user gets one honest answer, and every call has its row in the database."""

import base64
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from bot.app import turn_factory
from bot.bench.harness.prose import write_prose
from bot.db.engine import open_database
from bot.db.tables import model_calls, tool_calls, turns
from bot.sim.vllm.server import Timing
from bot.turns import cache_warmup
from bot.turns.handle import TurnHandle
from tests.support.cache_warmup import wait_until
from tests.support.endpoint.faults import EndpointFaultKind
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.gateway import GatewayHarness, running_gateway

PROSE = write_prose(150, 1)[1:] + " "  # longer than the patterns a server looks for


async def load_call_rows(gateway: GatewayHarness, *columns: str) -> list[tuple[object, ...]]:
    async with open_database(gateway.settings.database_url) as database, database.read_transaction() as tx:
        query = select(*(model_calls.c[name] for name in columns)).order_by(model_calls.c.id)
        return [tuple(row) for row in await tx.execute(query)]


def raw_reply(text: str) -> str:
    return f"@@b64:{base64.b64encode(text.encode()).decode()}@@"


@pytest.mark.parametrize("kind", ["busy", "crash", "reset", "error_line"])
async def test_what_may_be_asked_again_is_asked_again(tmp_path: Path, kind: EndpointFaultKind):
    async with running_gateway(tmp_path) as gateway:
        gateway.endpoint.inject_fault(kind, after_canvases=0)
        gateway.ann.send("@@say:here I am@@")
        if kind == "crash":
            await wait_until(lambda: any(request.status == 500 for request in gateway.endpoint.requests))
            gateway.endpoint.heal()
        await gateway.api.wait_until(lambda: gateway.texts()[-1:] == ["here I am"])
    outcomes = await load_call_rows(gateway, "outcome")
    assert outcomes[0] == ("failed",)
    assert outcomes[-1] == ("ok",)


async def test_a_stream_cut_in_the_middle_is_asked_again_and_one_message_is_shown(tmp_path: Path):
    async with running_gateway(tmp_path, ScriptedEndpoint(timing=Timing(canvas_seconds=0.4))) as gateway:
        gateway.endpoint.inject_fault("reset", after_canvases=1)
        gateway.ann.send(f"@@repeat:4 {PROSE}@@")
        await gateway.api.wait_until(gateway.is_finished)
        assert gateway.texts() == [(PROSE * 4).strip()]
    rows = await load_call_rows(gateway, "outcome", "usage_partial", "completion_tokens")
    assert rows[0][:2] == ("failed", True)
    assert rows[1][:2] == ("ok", False)


async def test_a_refused_key_is_said_at_once_and_admins_hear_why(tmp_path: Path):
    async with running_gateway(tmp_path, ScriptedEndpoint(api_key="right"), model_api_key="wrong") as gateway:
        gateway.ann.send("hello")

        def has_said(words: str) -> bool:
            return words in "".join(gateway.texts())

        await gateway.api.wait_until(lambda: has_said("refused my request") and has_said("MODEL_API_KEY"))
    assert "wrong" not in "".join(gateway.texts())


async def test_a_server_error_about_tools_is_a_refusal_and_admins_read_its_words(tmp_path: Path):
    profile = replace(ServerProfile(), tool_parser=False, refuses_with_500=True)
    async with running_gateway(tmp_path, ScriptedEndpoint(profile)) as gateway:
        gateway.ann.send("hello")
        texts = await gateway.wait_for_texts(2)
    assert any("refused my request" in text for text in texts)
    assert any("tools param requires --jinja flag" in text for text in texts)


async def test_an_unknown_model_is_said_and_admins_hear_why(tmp_path: Path):
    async with running_gateway(tmp_path, model_name="other") as gateway:
        gateway.ann.send("hello")
        texts = await gateway.wait_for_texts(2)
    assert any("MODEL_NAME" in text for text in texts)


async def test_an_endpoint_away_for_too_long_is_given_up_honestly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(turn_factory, "MODEL_WAIT_SECONDS", 0.2)
    async with running_gateway(tmp_path) as gateway:
        gateway.endpoint.inject_fault("busy", times=None)
        gateway.ann.send("hello")
        texts = await gateway.wait_for_texts(2)
        assert any("/retry" in text for text in texts)
        gateway.endpoint.heal()
        gateway.ann.send("@@say:back@@")
        await gateway.api.wait_until(lambda: "back" in gateway.texts())


async def test_a_prompt_too_long_loses_history_before_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        cache_warmup, "START_DELAY_SECONDS", 600.0
    )  # so that nobody is notified of so small a context
    async with running_gateway(tmp_path, ScriptedEndpoint(context=2200)) as gateway:
        for number in range(4):
            gateway.ann.send(f"@@say:{number}@@ " + "lorem ipsum " * 100)
            await gateway.wait_for_texts(number + 1)
        assert gateway.texts() == ["0", "1", "2", "3"]
        gateway.ann.send("x " * 2000 + "\n")
        refusal = (await gateway.wait_for_texts(5))[-1]
        assert refusal.startswith("Your message has 4,001 characters, more than I can read at once.")
        assert "as a text file" in refusal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "a usable answer"),
        ("thought\nThe answer is 4.", "The answer is 4."),
        ('Well<|"|> then', 'Well" then'),
    ],
)
async def test_odd_replies_are_mended_or_said(tmp_path: Path, text: str, expected: str):
    async with running_gateway(tmp_path) as gateway:
        gateway.ann.send(raw_reply(text) if text else "@@empty@@")
        assert expected in (await gateway.wait_for_texts())[0]
        assert "<|" not in gateway.texts()[0]


async def test_a_bare_call_in_the_text_is_run_not_shown(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        gateway.ann.send(raw_reply('call:calculate{expression:<|"|>6*7<|"|>}') + "@@say:42 it is@@")
        assert await gateway.wait_for_texts() == ["42 it is"]


async def test_a_cut_call_is_never_run(tmp_path: Path):
    async with running_gateway(tmp_path, model_max_tokens=256) as gateway:
        gateway.ann.send('@@tool:remember {"note": "' + "very long " * 400 + '"}@@')
        await gateway.wait_for_texts()
        async with (
            open_database(gateway.settings.database_url) as database,
            database.read_transaction() as tx,
        ):
            assert (await tx.execute(select(tool_calls))).all() == []


async def test_calls_without_end_meet_the_limit_of_steps(tmp_path: Path):
    calls = "".join(f'@@tool:calculate {{"expression": "{number}+1"}}@@' for number in range(20))
    async with running_gateway(tmp_path) as gateway:
        gateway.ann.send(calls)
        text = (await gateway.wait_for_texts())[0]
        assert "I've used all 8 steps allowed for one answer." in text
    assert len(await load_call_rows(gateway, "id")) == 8


async def test_a_turn_out_of_time_says_so_and_what_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    handles = list[TurnHandle]()
    start = TurnHandle.deadline

    def note_start(handle: TurnHandle) -> AbstractAsyncContextManager[Callable[[], None]]:
        handles.append(handle)
        return start(handle)

    monkeypatch.setattr(TurnHandle, "deadline", note_start)
    slow = ScriptedEndpoint(timing=Timing(canvas_seconds=0.25))
    async with running_gateway(tmp_path, slow, turn_seconds=900, model_max_tokens=4096) as gateway:
        gateway.ann.send(f"@@repeat:20 {PROSE}@@")
        await gateway.wait_for_first_block()
        handles[-1].prolong(-900)
        await gateway.api.wait_until(lambda: any("I ran out of time" in text for text in gateway.texts()))
        assert gateway.texts()[0].startswith(PROSE)
        gateway.endpoint.release()
    assert (await load_call_rows(gateway, "outcome", "usage_partial")) == [("cut", True)]


async def test_a_failing_tool_is_a_result_not_a_failure(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        gateway.ann.send('@@tool:clock {"zone": "Nowhere/Land"}@@@@say:I do not know that place.@@')
        assert await gateway.wait_for_texts() == ["I do not know that place."]
        async with (
            open_database(gateway.settings.database_url) as database,
            database.read_transaction() as tx,
        ):
            rows = (await tx.execute(select(tool_calls.c.outcome, turns.c.ending).join(turns))).all()
            assert [tuple(row) for row in rows] == [("error", "answered")]
