"""A database that an earlier version left in mid-work opens, and its work is finished.

It holds a turn that waits for an approval, a message that Telegram has not taken, a reminder that is due by
now, a grant and an allowance. The version of 22 November 2026, before modules and names changed, wrote it.
"""

import gzip
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.gateway.test_approval_waits import BOB, ring_prompt, wait_for_message
from tests.support.approval_tools import install_bells, load_rung_bells
from tests.support.gateway import ADMIN, open_harness

STORED = Path(__file__).parents[1] / "fixtures" / "database" / "2026-11-22.db.gz"
QUESTION = 15  # Telegram's id of the message that asks whether the tool toll may run


def unpack(file: Path) -> None:
    """Write the stored database to `file`; renew what expires, and take update ids that the simulator never
    gives.
    """
    file.write_bytes(gzip.decompress(STORED.read_bytes()))
    file.chmod(0o600)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE approvals SET expires_at = ? WHERE answer IS NULL", (time.time() + 900,))
        database.execute("UPDATE allowances SET until = ?", (time.time() + 86_400,))
        database.execute("UPDATE inbox SET update_id = -update_id")


@pytest.mark.sqlite
async def test_work_that_an_earlier_version_left_is_finished_and_its_grants_hold(tmp_path: Path):
    unpack(tmp_path / "gateway.db")
    async with open_harness(tmp_path, tools_dir=install_bells(tmp_path)) as gateway:
        bob = gateway.api.person(BOB, "Bob")
        gateway.ann.send("/id")  # the simulated Telegram lets a bot write only to who has written to it
        bob.send("/id")
        async with gateway.run():
            await wait_for_message(gateway, "an answer that Telegram has not taken")
            await gateway.api.wait_until(lambda: any("stretch" in text for text in gateway.texts()))

            person = {"id": ADMIN, "is_bot": False, "first_name": "Ann"}
            message = {
                "message_id": QUESTION,
                "date": 0,
                "chat": {"id": ADMIN, "type": "private", "first_name": "Ann"},
            }
            tap = {
                "id": "1",
                "chat_instance": "1",
                "from": person,
                "message": message,
                "data": "allow:once:2",
            }
            gateway.api.push_update({"callback_query": tap})
            await wait_for_message(gateway, "rang one", BOB)
            assert load_rung_bells(tmp_path) == ["one"]

            gateway.ann.send(ring_prompt("three", then="allowed"))
            await wait_for_message(gateway, "allowed three")
            bob.send(ring_prompt("two", "toll"))
            await wait_for_message(gateway, "I'll answer here.", BOB)
            bob.send("/stop")
            await wait_for_message(gateway, "Stopped.", BOB)
    assert load_rung_bells(tmp_path) == ["one", "three"]
