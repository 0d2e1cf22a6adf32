"""Hundreds of answers and messages that nobody should send: each call ends, and the next one is answered."""

import contextlib
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.mcp_session import call_tool, running_server, stdio_program
from tools.base import Found, ToolError
from tools.mcp.server import McpServerClient

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "video"])},
    optional={
        key: VALUES | st.just("AAAA") for key in ("text", "data", "mimeType", "uri", "name", "resource")
    },
)
RESULTS = VALUES | st.fixed_dictionaries(
    {},
    optional={
        "content": st.lists(BLOCKS | VALUES, max_size=4) | VALUES,
        "structuredContent": VALUES,
        "isError": VALUES,
        "_meta": VALUES,
        "resultType": st.sampled_from(["complete", "input_required", "task"]) | VALUES,
    },
)
METHODS = st.sampled_from(
    ["sampling/createMessage", "roots/list", "ping", "notifications/progress", "tools/call", "x"]
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | VALUES},
    optional={
        "id": st.integers(0, 9) | VALUES,
        "method": METHODS | VALUES,
        "params": VALUES | st.dictionaries(st.sampled_from(["progressToken", "requestId", "_meta"]), VALUES),
        "result": VALUES,
        "error": VALUES | st.fixed_dictionaries({"code": VALUES, "message": VALUES}),
    },
)
LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=20)


async def assert_call_ends(server: McpServerClient, tool: str, text: str) -> None:
    """A call ends in one of the expected ways, and another one is answered after it."""
    with contextlib.suppress(ToolError):
        assert isinstance(await call_tool(server, tool, {"text": text}), Found)
    assert (await call_tool(server, "echo", {"text": "after"})).text == "after"


@settings(max_examples=4, deadline=None)
@given(st.lists(RESULTS, min_size=20, max_size=60))
async def test_a_call_ends_whatever_its_result_is(results: list[Any]):
    async with running_server(stdio_program()) as (server, _):
        for result in results:
            await assert_call_ends(server, "answer", json.dumps(result))


@settings(max_examples=4, deadline=None)
@given(st.lists(MESSAGES | VALUES | LINES, min_size=10, max_size=24))
async def test_calls_are_answered_whatever_is_written_between_messages(messages: list[Any]):
    async with running_server(stdio_program()) as (server, _):
        for message in messages:
            line = message if isinstance(message, str) else json.dumps(message)
            await assert_call_ends(server, "write", line)
