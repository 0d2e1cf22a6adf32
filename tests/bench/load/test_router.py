"""`bench routing` without its router. With it, the command itself is the test: it exits by its limits."""

import asyncio

import pytest

from bot.bench.harness.gateway_process import BenchFailed
from tests.bench.load.router import RoutingOptions, run_routing


async def test_a_router_that_is_not_installed_is_named_with_the_command_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BenchFailed, match=r"uv run --with vllm-router python -m tests.bench routing"):
        await run_routing(RoutingOptions(), print, asyncio.Event())
