"""Malformed documents, and an admin who adds them all at once: each is answered, and nobody else waits for
it.
"""

import asyncio
import copy
import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bot.db.engine import connected
from bot.db.tables import inbox
from bot.http_server import serve
from bot.telegram.commands.tool_tasks import BEGUN
from tests.support.gateway import World, open_house
from tests.support.openapi_shop import Shop

pytestmark = pytest.mark.timeout(240)  # each document is read in a process of its own

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
MOST = 8
NO_DOCUMENTS = 7  # of what `broken` yields last


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place within a JSON value, outermost first."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*path, key)
        yield from places(one, (*path, key))


def broken(document: dict[str, Any]) -> Iterator[bytes]:
    """The document with junk in one place after the other; then what is no document at all."""
    for number, path in enumerate(places(document)):
        other = copy.deepcopy(document)
        at: Any = other
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = JUNK[number % len(JUNK)]
        yield json.dumps(other).encode()
    yield from (
        b"",
        b"\x00\xff",
        b"[" * 100_000,
        b"openapi: 3.1.0\npaths: &a [*a]",
        b"{}",
        b"null",
        b"<html></html>",
    )


async def test_malformed_documents_stop_nothing_and_keep_nobody_waiting(tmp_path: Path):
    every = list(broken(Shop().document))
    bodies = [*every[:: len(every) // MOST], *every[-NO_DOCUMENTS:]]

    async def document(request: Request) -> Response:
        return Response(bodies[request.path_params["number"]], media_type="application/json")

    app = Starlette(routes=[Route("/{number:int}.json", document)])
    async with (
        serve(app) as url,
        open_house(tmp_path, access="open", tools_private_hosts="127.0.0.1") as house,
    ):
        ann, bob = house.ann, house.api.person(8, "Bob")
        for number in range(len(bodies)):
            ann.send(f"/tools add {url}/{number}.json doc{number} 1")
        for text in ("one", "two"):
            bob.send(f"@@say:{text}@@")
            await house.api.until(partial(last, house, text), 40.0)
        await house.api.until(lambda: len(answers(house)) >= len(bodies), 200.0)
        while await errands(house) != {"done": len(bodies)}:  # noqa: ASYNC110  # an answer may be several messages
            await asyncio.sleep(0.1)
        bob.send("@@say:three@@")
        await house.api.until(partial(last, house, "three"), 40.0)


def answers(house: World) -> list[str]:
    """What the admin was told of the documents."""
    return [text for text in house.texts() if text != BEGUN["add"]]


async def errands(house: World) -> Counter[str]:
    """How many errands stand how; one that could not be handled would be dead."""
    async with connected(house.settings.database_url) as database, database.reading() as tx:
        return Counter((await tx.execute(select(inbox.c.state).where(inbox.c.kind == "house"))).scalars())


def last(house: World, text: str) -> bool:
    """Whether this is the newest the bot has said to Bob."""
    return house.texts(8)[-1:] == [text]
