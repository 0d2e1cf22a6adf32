"""A secret sent in a chat is not used or stored, its message is deleted, and the admin reads what to
do.
"""

import json
import logging

import pytest

from bot import logs
from bot.chat.commands.secret_guard import SECRET_NOTICE
from bot.db.engine import Database
from tests.support.update_harness import ADMIN, ANNA, UpdateHarness

KEY = "sk-proj-Zx81kq03mVb27Lp9"


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(database)
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA)
    return harness


@pytest.mark.parametrize(
    "args",
    [
        "secret set weather hunter2",
        "Secret set weather hunter2",
        "secret",
        f"add https://api.example/openapi.json {KEY}",
        "add https://ann:hunter2@api.example/openapi.json",
        f'try shop_list {{"key": "{KEY}"}}',
    ],
)
@pytest.mark.parametrize("person", [ADMIN, ANNA])
async def test_nothing_of_it_is_kept_and_its_message_is_to_be_deleted(
    harness: UpdateHarness, args: str, person: int
):
    (sent,) = await harness.send_text(f"/tools {args}", person=person, message_id=4321)
    assert sent.text == SECRET_NOTICE
    bodies = [row.body for row in await harness.load_items()]
    assert bodies[0] is None
    task = json.loads(bodies[1])
    assert (task["job"], task["do"], task["message"], task["lane"]) == (
        "tools",
        "unsay",
        4321,
        str(person),
    )
    assert not any("hunter2" in (body or "") or KEY in (body or "") for body in bodies)


async def test_no_line_of_the_log_shows_it(harness: UpdateHarness, capsys: pytest.CaptureFixture[str]):
    logs.configure("INFO")
    try:
        await harness.send_text(f"/tools add https://api.example/?x={KEY} {KEY}", person=ADMIN)
        logging.getLogger("x").warning("it was %s", KEY)
        assert KEY not in capsys.readouterr().err
    finally:
        root = logging.getLogger()
        root.handlers = [handler for handler in root.handlers if not isinstance(handler, logs._Handler)]


@pytest.mark.parametrize("args", ["text", "caption"])
async def test_what_was_edited_into_a_secret_is_not_kept_either(harness: UpdateHarness, args: str):
    message = harness.build_message(
        text=f"/tools add https://api.example/ {KEY}", person=ADMIN, message_id=9
    )["message"]
    message[args] = message.pop("text")
    await harness.store_updates({"edited_message": message})
    (sent,) = await harness.handle_claimed()
    assert sent.text == SECRET_NOTICE
    assert (await harness.load_items())[0].body is None


async def test_other_edits_are_passed_over(harness: UpdateHarness):
    for text in ("/tools", "hello", KEY):
        await harness.store_updates(
            {"edited_message": harness.build_message(text=text, person=ADMIN)["message"]}
        )
        assert await harness.handle_claimed() == []
