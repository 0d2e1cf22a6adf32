"""Tools of an MCP server in the whole gateway: used in a turn, seen by the model; nobody waits for a slow
one.
"""

import io
import json
from pathlib import Path

import pytest
from PIL import Image as PillowImage

from bot.http_server import serve
from bot.sim.gemma.tokens import IMAGE_MARKER
from bot.tool_registry.toolbox import UNDELIVERED
from tests.support.gateway import ADMIN, running_gateway
from tests.support.many_tools import write_tools_file
from tests.support.mcp_http_server import FakeMcpHttpServer

BOB = 8


async def test_a_server_is_used_while_others_chat_and_when_it_hangs_or_is_gone(tmp_path: Path):
    web = FakeMcpHttpServer(read_only=True)
    drawn = io.BytesIO()
    PillowImage.new("RGB", (1200, 900), "blue").save(drawn, "PNG")
    web.picture = drawn.getvalue()
    async with running_gateway(
        tmp_path, tools_private_hosts="127.0.0.1", access="open", thinking="off"
    ) as gateway:

        async def says(chat: int, text: str, expected: str) -> None:
            """Something is written, and the newest answer is this."""
            gateway.api.person(chat, "Ann" if chat == ADMIN else "Bob").send(text)
            await gateway.api.wait_until(
                lambda: expected in "".join(gateway.texts(chat)[-1:]) and gateway.is_finished(chat)
            )

        async with serve(web.app) as url:
            await says(ADMIN, f"/tools add mcp {url}/mcp odd", "Added, for admins")
            await says(ADMIN, "/new", "New conversation.")
            await says(ADMIN, "@@tool:odd_paint {}@@ @@say:All blue.@@", "All blue.")
            assert gateway.endpoint.requests[-1].prompt.endswith(f"<tool_response|>{IMAGE_MARKER}")
            assert UNDELIVERED in gateway.endpoint.requests[-1].prompt
            await says(ADMIN, "/tools deliver odd_paint on", "odd_paint: sends pictures and files.")
            gateway.ann.send("@@tool:odd_paint {}@@ @@say:Still blue.@@")
            await gateway.api.wait_until(lambda: gateway.api.chat(ADMIN).bot_messages[-1].raw.get("photo"))
            assert gateway.texts()[-2] == "Still blue."
            assert "sent to the person: picture.png" in gateway.endpoint.requests[-1].prompt
            gateway.ann.send("@@tool:odd_wait {}@@ @@say:That took long.@@")
            await web.is_waiting.wait()
            await says(BOB, "@@say:Nobody waits.@@", "Nobody waits.")
            assert "That took long." not in gateway.texts()
            web.release.set()
            await gateway.api.wait_until(lambda: "That took long." in gateway.texts())
        await says(ADMIN, "@@tool:odd_echo {}@@ @@say:It is away.@@", "It is away.")
    assert "odd is not available" in gateway.endpoint.requests[-1].prompt


PETS = {
    "type": "object",
    "properties": {
        "pet": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
                    "required": ["kind", "lives"],
                },
                {
                    "type": "object",
                    "properties": {"kind": {"const": "dog"}, "loud": {"type": "boolean"}},
                    "required": ["kind", "loud"],
                },
            ]
        },
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "anything": {"type": "object"},
        "size": {"enum": ["small", "large"], "default": "small"},
        "text": {"type": "string"},
    },
    "required": ["pet", "size"],
    "additionalProperties": False,
}
PET_CALL = {
    "pet": {"kind": "dog", "loud": True},
    "counts": {"a": 1},
    "anything": {"n": 5, "on": True, "zip": "01234"},
    "text": "5",
}


@pytest.mark.parametrize("has_many", [False, True])
async def test_a_call_arrives_with_its_types_also_by_use_tool(tmp_path: Path, has_many: bool):
    web = FakeMcpHttpServer(read_only=True)
    web.schemas["echo"] = PETS
    call = f"odd_echo {json.dumps(PET_CALL)}"
    wrong = 'odd_echo {"pet": {"kind": "cat"}}'
    tools_dir = tmp_path / "mine"
    tools_dir.mkdir(mode=0o755)
    if has_many:
        write_tools_file(tools_dir)
        call = f"use_tool {json.dumps({'name': 'odd_echo', 'arguments': PET_CALL})}"
        wrong = 'use_tool {"name": "odd_echo", "arguments": {"pet": {"kind": "cat"}}}'
    async with (
        running_gateway(
            tmp_path, tools_private_hosts="127.0.0.1", thinking="off", tools_dir=tools_dir
        ) as gateway,
        serve(web.app) as url,
    ):
        ann = gateway.ann
        ann.send(f"/tools add mcp {url}/mcp odd")
        await gateway.wait_for_texts(2)
        ann.send("/new")
        await gateway.wait_for_texts(3)
        ann.send(f"@@tool:{call}@@ @@say:Done.@@")
        await gateway.wait_for_texts(4)
        assert web.calls == [{**PET_CALL, "size": "small"}]
        ann.send(f"@@tool:{wrong}@@ @@say:Sorry.@@")
        await gateway.wait_for_texts(5)
    assert "pet of odd_echo needs lives." in gateway.endpoint.requests[-1].prompt
    assert len(web.calls) == 1


async def test_progress_of_a_call_is_shown_to_the_person_and_leaves_nothing_behind(tmp_path: Path):
    web = FakeMcpHttpServer(read_only=True)
    async with (
        running_gateway(tmp_path, tools_private_hosts="127.0.0.1", thinking="off") as gateway,
        serve(web.app) as url,
    ):
        ann = gateway.ann
        ann.send(f"/tools add mcp {url}/mcp odd")
        await gateway.wait_for_texts(2)
        ann.send("/tools timeout odd 60")
        await gateway.wait_for_texts(3)
        assert gateway.texts()[-1] == "odd: a call may take 60 s, and 600 s if it reports progress."
        ann.send("/new")
        await gateway.wait_for_texts(4)
        ann.send("@@tool:odd_work {}@@ @@say:That is all.@@")
        await gateway.api.wait_until(
            lambda: (
                (draft := gateway.api.chat(ADMIN).draft) is not None
                and draft.text == "odd_work: 2 of 10: downloading all of …"
            )
        )
        web.release.set()
        await gateway.api.wait_until(lambda: gateway.texts()[-1] == "That is all.")
        assert len(gateway.texts()) == 5
        assert gateway.api.chat(ADMIN).draft is None


async def test_resources_are_read_and_no_address_that_stood_nowhere(tmp_path: Path):
    web = FakeMcpHttpServer(read_only=True)
    web.resources = {"memo://notes": "Buy milk."}
    async with (
        running_gateway(tmp_path, tools_private_hosts="127.0.0.1", thinking="off") as gateway,
        serve(web.app) as url,
    ):
        gateway.ann.send(f"/tools add mcp {url}/mcp odd")
        assert "odd_read_resource" in (await gateway.wait_for_texts(2))[-1]
        gateway.ann.send("/new")
        await gateway.wait_for_texts(3)
        made_up = "memo:\\u002f\\u002fevil?4711"  # nobody wrote it, letter by letter
        call = '@@tool:odd_read_resource {"uri": "URI"}@@'
        calls = "".join(call.replace("URI", uri) for uri in ("memo://notes", made_up))
        gateway.ann.send(f"{calls}@@say:Milk, then.@@")
        await gateway.api.wait_until(lambda: gateway.texts()[-1] == "Milk, then.")
        assert "Buy milk." in gateway.endpoint.requests[-1].prompt
        assert "only addresses that the person wrote" in gateway.endpoint.requests[-1].prompt
        assert web.read_uris == ["memo://notes"]
