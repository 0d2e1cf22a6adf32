"""Tools of an MCP server in the whole house: used in a turn, seen by the model; nobody else waits for a slow
one.
"""

import io
from pathlib import Path

from PIL import Image as Drawn

from bot.http_server import serve
from bot.sim.gemma.tokens import IMAGE_MARKER
from tests.support.gateway import ADMIN, running_gateway
from tests.support.mcp_http_server import FakeMcpHttpServer

BOB = 8


async def test_a_server_is_used_while_others_chat_and_when_it_hangs_or_is_gone(tmp_path: Path):
    web = FakeMcpHttpServer(read_only=True)
    drawn = io.BytesIO()
    Drawn.new("RGB", (1200, 900), "blue").save(drawn, "PNG")
    web.picture = drawn.getvalue()
    async with running_gateway(
        tmp_path, tools_private_hosts="127.0.0.1", access="open", thinking="off"
    ) as house:

        async def says(chat: int, text: str, wanted: str) -> None:
            """Something is written, and the newest answer is this."""
            house.api.person(chat, "Ann" if chat == ADMIN else "Bob").send(text)
            await house.api.wait_until(
                lambda: wanted in "".join(house.texts(chat)[-1:]) and house.is_finished(chat)
            )

        async with serve(web.app) as url:
            await says(ADMIN, f"/tools add mcp {url}/mcp odd", "Added, for admins")
            await says(ADMIN, "/new", "")
            await says(ADMIN, "@@tool:odd_paint {}@@ @@say:All blue.@@", "All blue.")
            assert house.endpoint.requests[-1].prompt.endswith(f"<tool_response|>{IMAGE_MARKER}")
            house.ann.send("@@tool:odd_wait {}@@ @@say:That took long.@@")
            await web.is_waiting.wait()
            await says(BOB, "@@say:Nobody waits.@@", "Nobody waits.")
            assert "That took long." not in house.texts()
            web.release.set()
            await house.api.wait_until(lambda: "That took long." in house.texts())
        await says(ADMIN, "@@tool:odd_echo {}@@ @@say:It is away.@@", "It is away.")
    assert "odd is not available" in house.endpoint.requests[-1].prompt
