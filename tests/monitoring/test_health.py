"""/healthz and /metrics answer as shipped: through the whole house, on its own port."""

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bot.app import factory as app
from bot.db.engine import Database
from bot.db.usage.ended import Lookout
from bot.errors import SettingsRefused, StoreUnavailable
from bot.http_server import serve
from bot.monitoring.health import pages
from bot.monitoring.metrics import Metrics
from tests.support.gateway import World, open_house, world

CALL = '@@tool:calculate {"expression": "6*7"}@@'


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def read(port: int) -> dict[str, float]:
    """The page as values by series."""
    async with httpx.AsyncClient() as http:
        answer = await http.get(f"http://127.0.0.1:{port}/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return dict(series(answer.text))


def series(page: str) -> Iterator[tuple[str, float]]:
    for line in page.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            yield name, float(value)


async def test_a_running_gateway_says_that_it_is_live_and_ready_and_nothing_else(tmp_path: Path):
    port = free_port()
    async with open_house(tmp_path, http_port=port) as house, httpx.AsyncClient() as http:
        await house.api.until(lambda: house.api.calls_of("getUpdates"))
        answer = await http.get(f"http://127.0.0.1:{port}/healthz")
        assert (answer.status_code, answer.json()) == (200, {"live": True, "ready": True})
        assert (await http.get(f"http://127.0.0.1:{port}/")).status_code == 404


async def test_a_turn_is_in_the_figures_once_and_no_person_is(tmp_path: Path):
    port = free_port()
    async with open_house(tmp_path, http_port=port) as house:
        house.ann.send(f"{CALL}@@say:It is 42.@@")
        assert await house.answered() == ["It is 42."]
        first, page = await read(port), await read(port)
        assert first['canvasgram_turns_total{ending="answered"}'] == 1
        assert page['canvasgram_turns_total{ending="answered"}'] == 1
        assert page['canvasgram_tool_calls_total{outcome="ok",tool="calculate"}'] == 1
        assert page['canvasgram_canvases_estimated_total{purpose="turn"}'] == 2
        calls = 'gen_ai_client_token_usage_count{gen_ai_operation_name="chat",gen_ai_request_model="%s",%s}'
        model = house.endpoint.requests[0].body["model"]
        assert page[calls % (model, 'gen_ai_token_type="output"')] == 2
        assert (
            sum(
                value
                for name, value in page.items()
                if re.match(r"gen_ai_client_operation_dur.*_count", name)
            )
            == 2
        )
        assert page['canvasgram_seats_in_use{endpoint="main"}'] == 0
        assert not any("Ann" in name or re.search(r'"7"', name) for name in page)


async def test_what_waits_and_what_is_taken_is_told_as_it_stands(tmp_path: Path):
    port = free_port()
    async with open_house(tmp_path, http_port=port, model_seats=1, access="open") as house:
        house.endpoint.hold()
        house.ann.send("one")
        await house.endpoint.until(lambda: house.endpoint.running == 1)
        house.api.person(8, "Bob").send("two")
        await house.api.until(lambda: any("next" in call.text for call in house.api.calls))
        house.ann.send("three")
        await house.api.until(lambda: reactions(house))
        page = await read(port)
        house.endpoint.release()
        assert page['canvasgram_seats_in_use{endpoint="main"}'] == 1
        assert page['canvasgram_seats_waiting{endpoint="main"}'] == 1
        assert page["canvasgram_inbox_waiting"] == 1


def reactions(house: World) -> bool:
    return any(call.text == "" for call in house.api.calls_of("setMessageReaction"))


async def test_a_tool_that_the_model_made_up_is_no_label(tmp_path: Path):
    port = free_port()
    async with open_house(tmp_path, http_port=port) as house:
        house.ann.send("@@tool:the_secret_of_ann {}@@@@say:There is none.@@")
        await house.answered()
        page = await read(port)
        assert page['canvasgram_tool_calls_total{outcome="refused",tool="other"}'] == 1
        assert not any("secret" in name for name in page)


async def test_what_ended_before_this_process_is_not_counted_and_what_it_left_is(tmp_path: Path):
    port = free_port()
    async with world(tmp_path, http_port=port) as house:
        async with house.gateway():
            house.ann.send("@@say:One.@@")
            await house.answered()
        polls = len(house.api.calls_of("getUpdates"))
        async with house.gateway():
            await house.api.until(lambda: len(house.api.calls_of("getUpdates")) > polls)
            page = await read(port)
            assert not any(name.startswith("canvasgram_turns_total") for name in page)
            house.ann.send("@@say:Two.@@")
            await house.answered(2)
            assert (await read(port))['canvasgram_turns_total{ending="answered"}'] == 1


async def test_a_database_that_cannot_be_read_is_said(database: Database):
    class Away(Lookout):
        async def look(self, *, now: float) -> None:  # type: ignore[override]
            raise StoreUnavailable("the disk is full")

    async with (
        serve(pages(lambda: False, Metrics(Away(database), {}, bool, "0"))) as url,
        httpx.AsyncClient() as http,
    ):
        answer = await http.get(f"{url}/metrics")
        assert (answer.status_code, answer.text) == (503, "the disk is full")
        assert (await http.get(f"{url}/healthz")).json() == {"live": True, "ready": False}


async def test_a_port_in_use_is_one_clear_line(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with world(tmp_path, http_port=port) as house:
            with pytest.raises(SettingsRefused, match=f"HTTP_PORT {port} cannot be used"):
                await app.run(house.settings, asyncio.Event())
