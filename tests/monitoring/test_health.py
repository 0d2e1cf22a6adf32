"""/healthz and /metrics answer as shipped: through the whole gateway, on its own port."""

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bot.app import process
from bot.app.monitoring_server import PortBusy
from bot.db.engine import Database
from bot.db.usage.ended import EndedWatcher
from bot.errors import StoreUnavailable
from bot.http_server import serve
from bot.monitoring.health import build_app
from bot.monitoring.metrics import GatewayMetrics, GatewayState
from bot.tool_registry.sign_in_flows import SignInRequest
from tests.support.free_ports import find_free_port
from tests.support.gateway import open_harness, running_gateway
from tools.mcp.sign_in import SignInAnswer

CALL = '@@tool:calculate {"expression": "6*7"}@@'


async def read_metrics(port: int) -> dict[str, float]:
    """The page as values by series."""
    async with httpx.AsyncClient(timeout=None) as http:
        answer = await http.get(f"http://127.0.0.1:{port}/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return dict(parse_series(answer.text))


def parse_series(page: str) -> Iterator[tuple[str, float]]:
    for line in page.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            yield name, float(value)


async def wait_until_ready(http: httpx.AsyncClient, port: int) -> httpx.Response:
    """The first answer of `/healthz` that says ready."""
    async with asyncio.timeout(300):
        while True:
            answer = await http.get(f"http://127.0.0.1:{port}/healthz")
            if answer.json()["ready"]:
                return answer
            await asyncio.sleep(0.01)


async def test_a_running_gateway_says_that_it_is_live_and_ready_and_nothing_else(tmp_path: Path):
    port = find_free_port()
    async with running_gateway(tmp_path, http_port=port) as gateway, httpx.AsyncClient(timeout=None) as http:
        await gateway.api.wait_until(lambda: gateway.api.calls_of("getUpdates"))
        answer = await wait_until_ready(http, port)
        health = answer.json()
        health.pop("replica", None)  # on PostgreSQL
        assert (answer.status_code, health) == (200, {"live": True, "ready": True})
        assert (await http.get(f"http://127.0.0.1:{port}/")).status_code == 404


async def test_a_turn_is_in_the_figures_once_and_no_person_is(tmp_path: Path):
    port = find_free_port()
    async with running_gateway(tmp_path, http_port=port) as gateway:
        gateway.ann.send(f"{CALL}@@say:It is 42.@@")
        assert await gateway.wait_for_texts() == ["It is 42."]
        await gateway.api.wait_until(gateway.is_finished)
        first = await read_metrics(port)
        page = await read_metrics(port)
        assert first['canvasgram_turns_total{ending="answered"}'] == 1
        assert page['canvasgram_turns_total{ending="answered"}'] == 1
        assert page['canvasgram_tool_calls_total{outcome="ok",tool="calculate"}'] == 1
        assert page['canvasgram_canvases_estimated_total{purpose="turn"}'] == 2
        calls = 'gen_ai_client_token_usage_count{gen_ai_operation_name="chat",gen_ai_request_model="%s",%s}'
        model = gateway.endpoint.requests[0].body["model"]
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


async def test_seats_and_queues_are_reported_as_they_are_now(tmp_path: Path):
    port = find_free_port()
    async with running_gateway(tmp_path, http_port=port, model_seats=1, access="open") as gateway:
        gateway.endpoint.hold()
        gateway.ann.send("one")
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
        gateway.api.person(8, "Bob").send("two")
        await gateway.api.wait_until(lambda: any("next" in call.text for call in gateway.api.calls))
        gateway.ann.send("three")
        page = await read_metrics(port)
        while page["canvasgram_inbox_waiting"] == 0:
            page = await read_metrics(port)
        gateway.endpoint.release()
        assert page['canvasgram_seats_in_use{endpoint="main"}'] == 1
        assert page['canvasgram_seats_waiting{endpoint="main"}'] == 1
        assert page["canvasgram_inbox_waiting"] == 1


async def test_a_tool_that_the_model_made_up_is_no_label(tmp_path: Path):
    port = find_free_port()
    async with running_gateway(tmp_path, http_port=port) as gateway:
        gateway.ann.send("@@tool:the_secret_of_ann {}@@@@say:There is none.@@")
        await gateway.api.wait_until(gateway.is_finished)
        page = await read_metrics(port)
        assert page['canvasgram_tool_calls_total{outcome="refused",tool="other"}'] == 1
        assert not any("secret" in name for name in page)


async def test_what_ended_before_this_process_is_not_counted_and_what_it_left_is(tmp_path: Path):
    port = find_free_port()
    async with open_harness(tmp_path, http_port=port) as gateway:
        async with gateway.run():
            gateway.ann.send("@@say:One.@@")
            await gateway.wait_for_texts()
            await gateway.api.wait_until(gateway.is_finished)
        polls = len(gateway.api.calls_of("getUpdates"))
        async with gateway.run():
            await gateway.api.wait_until(lambda: len(gateway.api.calls_of("getUpdates")) > polls)
            page = await read_metrics(port)
            assert not any(name.startswith("canvasgram_turns_total") for name in page)
            gateway.ann.send("@@say:Two.@@")
            await gateway.wait_for_texts(2)
            await gateway.api.wait_until(gateway.is_finished)
            assert (await read_metrics(port))['canvasgram_turns_total{ending="answered"}'] == 1


class NoSignIns:
    """No sign-in is under way."""

    def find_request(self, state: str) -> SignInRequest | None:
        return None

    def receive(self, answer: SignInAnswer) -> bool:
        return False


async def test_a_database_that_cannot_be_read_is_said(database: Database):
    class Away(EndedWatcher):
        async def poll(self, *, now: float) -> None:  # type: ignore[override]
            raise StoreUnavailable("the disk is full")

    metrics = GatewayMetrics(Away(database), {}, bool, "0", GatewayState(bool))
    async with (
        serve(build_app(lambda: False, metrics, NoSignIns())) as url,
        httpx.AsyncClient(timeout=None) as http,
    ):
        answer = await http.get(f"{url}/metrics")
        assert (answer.status_code, answer.text) == (503, "the disk is full")
        assert (await http.get(f"{url}/healthz")).json() == {"live": True, "ready": False}


async def test_a_start_without_telegram_is_live_and_not_ready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    port = find_free_port()
    opened = open_harness(
        tmp_path,
        http_port=port,
        http_host="0.0.0.0",
        admin_page="on",
        telegram_api_url=f"http://127.0.0.1:{find_free_port()}",
    )
    async with opened as gateway, gateway.run(), httpx.AsyncClient(timeout=None) as http:
        answer = await read_first_answer(http, f"http://127.0.0.1:{port}/healthz")
        assert (answer.status_code, answer.json()) == (200, {"live": True, "ready": False})
        assert (await http.get(f"http://127.0.0.1:{port}/metrics")).status_code == 503
    assert sum("admins' page unencrypted" in record.message for record in caplog.records) == 1


async def read_first_answer(http: httpx.AsyncClient, url: str) -> httpx.Response:
    async with asyncio.timeout(300):
        while True:
            try:
                return await http.get(url)
            except httpx.ConnectError:  # it does not listen yet
                await asyncio.sleep(0.01)


async def test_a_port_in_use_is_one_clear_line(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        async with open_harness(tmp_path, http_port=port) as gateway:
            with pytest.raises(PortBusy, match=f"HTTP_PORT {port} cannot be used"):
                await process.run(gateway.settings, asyncio.Event())
