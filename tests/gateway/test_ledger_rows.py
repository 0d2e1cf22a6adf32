"""The row of a model call holds all that reports need: what was sent, what the server counted, when, how it
ended.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bot.bench.harness.prose import write_prose
from bot.db.database_url import parse_database_path
from bot.sim.vllm.script import message_text
from bot.sim.vllm.server import Timing
from tests.support import attachment_files
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import GatewayHarness, running_gateway

EMPTY_COLUMNS = {"again", "error", "life", "usage_missing"}  # of a turn where all went well


def load_calls(gateway: GatewayHarness) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(parse_database_path(gateway.settings.database_url))) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute("select * from model_calls order by id")]


@pytest.mark.sqlite
async def test_the_row_of_a_call_holds_everything(tmp_path: Path):
    async with running_gateway(
        tmp_path, ScriptedEndpoint(timing=Timing.canvas(0.01)), model_seats=1, thinking="off"
    ) as gateway:
        gateway.ann.send('@@tool:remember {"note": "Ann likes tea"}@@@@say:noted@@')
        await gateway.wait_for_texts(1)
        gateway.ann.send("/new")
        await gateway.wait_for_texts(2)
        gateway.ann.send_photo(
            f"@@repeat:3 {write_prose(150, 1)[1:]} @@", content=attachment_files.make_image(40, 30)
        )
        await gateway.wait_for_texts(3)
        await gateway.api.wait_until(gateway.is_finished)
        *_, row = load_calls(gateway)
        body = gateway.endpoint.requests[-1].body
    assert {name for name, value in row.items() if value is None} == EMPTY_COLUMNS
    assert (row["turn"], row["step"], row["purpose"], row["outcome"], row["finish_reason"]) == (
        2,
        1,
        "turn",
        "ok",
        "stop",
    )
    assert (row["endpoint"], row["model"]) == (gateway.settings.model_url, "diffusiongemma")
    assert row["fingerprint"].startswith(
        "vllm-0.33"
    )  # what the server says of itself; steps and bound it does not tell
    assert row["thinking"] == body["chat_template_kwargs"]["enable_thinking"]
    assert row["tools_offered"] == len(body["tools"])
    assert 0 <= row["cached_tokens"] < row["prompt_tokens"]
    assert (row["completion_tokens"] + 255) // 256 == row["blocks"] == 2
    assert (row["reasoning_tokens"], row["usage_partial"]) == (0, 0)
    times = [row[name] for name in ("created_at", "seat_at", "first_block_at", "last_block_at", "ended_at")]
    assert times == sorted(times)
    block_times = json.loads(row["block_ms"])
    assert len(block_times) == row["blocks"]
    assert block_times[0] == round(1000 * (row["first_block_at"] - row["created_at"]))
    assert block_times[-1] == round(1000 * (row["last_block_at"] - row["created_at"]))
    assert set(json.loads(row["server_ms"])) >= {"time_to_first_token_ms", "queue_time_ms"}


@pytest.mark.sqlite
async def test_what_a_prompt_was_made_of_adds_up_to_what_was_sent(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        gateway.ann.send('@@tool:remember {"note": "Ann likes tea"}@@@@say:noted@@')
        await gateway.wait_for_texts(1)
        gateway.ann.send("/new")
        await gateway.wait_for_texts(2)
        gateway.ann.send("@@say:hello@@")
        await gateway.wait_for_texts(3)
        gateway.ann.send_photo("@@say:a picture@@", content=attachment_files.make_image(40, 30))
        await gateway.wait_for_texts(4)
        rows = load_calls(gateway)
        bodies = [request.body for request in gateway.endpoint.requests]
    for row, body in zip(rows, bodies, strict=True):
        system, *messages = body["messages"]
        assert row["chars_system"] == len(message_text(system))
        assert row["chars_notes"] + row["chars_history"] == sum(
            len(message_text(message)) for message in messages
        )
        assert row["chars_tools"] > 0
    assert [row["images"] for row in rows] == [0, 0, 0, 1]
    assert [bool(row["chars_notes"]) for row in rows] == [False, False, True, True]


@pytest.mark.sqlite
async def test_a_call_that_was_made_again_says_so_and_ended_before_the_pause(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        gateway.endpoint.inject_fault("busy")
        gateway.ann.send("@@say:here I am@@")
        await gateway.wait_for_texts()
        first, second = load_calls(gateway)
    assert (first["outcome"], second["again"]) == ("failed", "away")
    assert "busy" in first["error"]
    assert first["usage_missing"] is not None
    pause = second["created_at"] - first["ended_at"]
    assert pause > 0.45  # half a second by another clock, which is no part of the call
