"""A whole gateway starts and warms up: users find the head in the cache, go first, and do not wait for it."""

import logging
from functools import partial
from pathlib import Path

import pytest

from bot.domain import PEOPLE_PRIORITY, WARMUP_PRIORITY
from bot.turns import cache_warmup, seat_queue
from tests.support.cache_warmup import MIN_HEAD_TOKENS, requests_finished
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.gateway import ADMIN, GatewayHarness, open_harness, running_gateway


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_warmup, "START_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(cache_warmup, "BACKOFF_SECONDS", (0.01,))


def has_calls(endpoint: ScriptedEndpoint, times: int) -> bool:
    return len(endpoint.requests) >= times


async def measure_first_prompts(gateway: GatewayHarness, *people: int) -> list[tuple[bool, int, int]]:
    """Strangers write one after the other: thinking, prompt tokens and cached tokens of each first call.

    Their words fill blocks of the cache of their own, and differ from the beginning.
    """
    rows = []
    for person in people:
        before = len(gateway.endpoint.requests)
        done = partial(gateway.is_finished, person)
        gateway.api.person(person, f"P{person}").send(f"{person} is my number. " + "How are you today? " * 12)
        await gateway.api.wait_until(done)
        request = gateway.endpoint.requests[before]
        rows.append((request.thinking, request.prompt_tokens, request.cached_tokens))
    return rows


@pytest.mark.parametrize("thinking", [False, True])
async def test_the_first_person_finds_the_head_in_the_cache(tmp_path: Path, thinking: bool) -> None:
    setting = "on" if thinking else "auto"
    async with running_gateway(
        tmp_path, access="open", warm_up="on", image_tokens="280", thinking=setting
    ) as gateway:
        await gateway.endpoint.wait_until(requests_finished(gateway.endpoint, 4))
        [first] = await measure_first_prompts(gateway, 21)
    assert first[0] is thinking
    assert first[2] > MIN_HEAD_TOKENS
    assert first[1] - first[2] < 160  # the person's own words, and a block


@pytest.mark.parametrize("thinking", [False, True])
async def test_without_it_the_first_two_people_pay_for_the_head(tmp_path: Path, thinking: bool) -> None:
    setting = "on" if thinking else "auto"
    async with running_gateway(tmp_path, access="open", thinking=setting) as gateway:
        first, second, third = await measure_first_prompts(gateway, 21, 22, 23)
    assert (first[2], second[2]) == (0, 0)
    assert third[2] > MIN_HEAD_TOKENS


async def test_people_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seat_queue, "SEAT_NOTICE_SECONDS", 0.05)
    endpoint = ScriptedEndpoint(seats=1)
    async with running_gateway(tmp_path, endpoint, warm_up="on", model_seats=1) as gateway:
        endpoint.hold()
        await endpoint.wait_until(lambda: endpoint.running == 1)
        gateway.ann.send("hello there")
        await gateway.api.wait_until(
            lambda: (draft := gateway.api.chat(ADMIN).draft) and "next in line" in draft.text
        )
        endpoint.release()
        await gateway.api.wait_until(gateway.is_finished)
        await endpoint.wait_until(requests_finished(endpoint, 5))
    order = [request.body.get("priority", PEOPLE_PRIORITY) for request in endpoint.requests]
    assert order[:5] == [WARMUP_PRIORITY, PEOPLE_PRIORITY, *[WARMUP_PRIORITY] * 3]


async def test_the_gateway_polls_while_it_warms_up(tmp_path: Path) -> None:
    async with open_harness(tmp_path, warm_up="on") as gateway, gateway.run():
        gateway.endpoint.hold()
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
        await gateway.api.wait_until(lambda: gateway.api.calls_of("getUpdates"))
        gateway.endpoint.release()
        await gateway.endpoint.wait_until(requests_finished(gateway.endpoint, 4))


async def test_an_endpoint_that_is_down_at_start_is_fine(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_harness(tmp_path, warm_up="on") as gateway:
        gateway.endpoint.refuse_connections(60)
        async with gateway.run():
            gateway.ann.send("/id")
            await gateway.wait_for_texts(1)
            gateway.endpoint.heal()
            await gateway.endpoint.wait_until(requests_finished(gateway.endpoint, 4))
    assert not [line for line in caplog.records if line.levelno > logging.WARNING]


async def test_the_preview_image_is_named_at_start_and_admins_are_notified_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = ScriptedEndpoint(ServerProfile.preview())
    endpoint.hold()
    async with open_harness(tmp_path, endpoint, warm_up="on") as gateway:
        gateway.ann.send("/id")
        for start in (1, 2):
            async with gateway.run():
                # By the time of the first call all has been said about the server itself.
                await endpoint.wait_until(partial(has_calls, endpoint, start))
                await gateway.wait_for_texts(2)
    warning, update_warning = complaint_warnings(caplog)
    assert warning == update_warning
    assert "0.22.1rc1" in warning
    assert "pip install -U 'vllm>=0.33.0'" in warning
    assert len(gateway.texts()) == 2
    assert sum(warning in text for text in gateway.texts()) == 1


def complaint_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if getattr(record, "action", "") == "server.complaint"
    ]
