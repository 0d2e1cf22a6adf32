"""An admin adds many malformed documents at once: each is answered, and nobody else waits for it."""

import asyncio
import copy
import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import select
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bot.chat.commands.tool_tasks import STARTED_REPLIES
from bot.db.engine import open_database
from bot.db.tables import inbox
from bot.http_server import serve
from bot.sim.telegram.server import MAX_WAIT_SECONDS
from tests.support.gateway import GatewayHarness, running_gateway
from tests.support.openapi_shop import OpenApiShop

JUNK: tuple[Any, ...] = (
    None,
    [],
    {},
    -1,
    "<|turn>x",
    {"$ref": "#/nowhere"},
    {"$ref": "file:///etc/passwd"},
    [{}] * 50,
)
BROKEN_COUNT = 3  # each is read in a process of its own; tests/tools/openapi/test_worker.py tries more


def walk_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place within a JSON value, outermost first."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        yield (*path, key)
        yield from walk_paths(child, (*path, key))


def break_document(document: dict[str, Any]) -> Iterator[bytes]:
    """The document with junk in one place after the other."""
    for number, path in enumerate(walk_paths(document)):
        broken = copy.deepcopy(document)
        parent: Any = broken
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = JUNK[number % len(JUNK)]
        yield json.dumps(broken).encode()


async def test_malformed_documents_stop_nothing_and_keep_nobody_waiting(tmp_path: Path):
    every = list(break_document(OpenApiShop().document))
    bodies = [*every[:: len(every) // BROKEN_COUNT], b"\x00\xff", b"openapi: 3.1.0\npaths: &a [*a]"]

    async def document(request: Request) -> Response:
        return Response(bodies[request.path_params["number"]], media_type="application/json")

    app = Starlette(routes=[Route("/{number:int}.json", document)])
    async with (
        serve(app) as url,
        running_gateway(tmp_path, access="open", tools_private_hosts="127.0.0.1") as gateway,
    ):
        ann = gateway.ann
        bob = gateway.api.person(8, "Bob")
        for number in range(len(bodies)):
            ann.send(f"/tools add {url}/{number}.json doc{number} 1")
        for text in ("one", "two"):
            bob.send(f"@@say:{text}@@")
            await gateway.api.wait_until(partial(is_last_text, gateway, text), 2 * MAX_WAIT_SECONDS)
        await gateway.api.wait_until(lambda: len(answer_texts(gateway)) >= len(bodies), 5 * MAX_WAIT_SECONDS)
        while await count_task_states(gateway) != {"done": len(bodies)}:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        bob.send("@@say:three@@")
        await gateway.api.wait_until(partial(is_last_text, gateway, "three"))


def answer_texts(gateway: GatewayHarness) -> list[str]:
    """The answers to the admin about the documents."""
    return [text for text in gateway.texts() if text != STARTED_REPLIES["add"]]


async def count_task_states(gateway: GatewayHarness) -> Counter[str]:
    """How many tool tasks are in each state; one that could not be handled would be dead."""
    async with open_database(gateway.settings.database_url) as database, database.read_transaction() as tx:
        return Counter((await tx.execute(select(inbox.c.state).where(inbox.c.kind == "system"))).scalars())


def is_last_text(gateway: GatewayHarness, text: str) -> bool:
    """Whether this is the newest the bot has said to Bob."""
    return gateway.texts(8)[-1:] == [text]
