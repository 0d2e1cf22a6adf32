"""A database that an earlier version left in mid-work opens, and its work is finished.

Both hold a turn that waits for an approval, a message that Telegram has not taken, a reminder that is due by
now, a grant and an allowance. The version of 22 November 2026, before modules and names changed, wrote the
first. The other, of the next day, also holds a group that has become a supergroup, with a note, a reminder
and a turn under way, and a guest's question under way.
"""

import gzip
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from bot.sim.telegram.server import MAX_WAIT_SECONDS
from tests.gateway.test_approval_waits import BOB, ring_prompt, wait_for_message
from tests.support.approval_tools import install_bells, load_rung_bells
from tests.support.gateway import ADMIN, GatewayHarness, open_harness
from tests.support.group_chat import GroupHarness, open_group

STORED = Path(__file__).parents[1] / "fixtures" / "database"
QUESTIONS = {"2026-11-22": 15, "2026-11-23": 25}
"""Telegram's id of the message that asks whether the tool toll may run, by the day of the database."""
GROUP_DAY = "2026-11-23"
SUPERGROUP = -1001000000777


def unpack(day: str, file: Path) -> None:
    """Write the stored database to `file`; renew what expires, and take update ids that the simulator never
    gives.
    """
    file.write_bytes(gzip.decompress((STORED / f"{day}.db.gz").read_bytes()))
    file.chmod(0o600)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE approvals SET expires_at = ? WHERE answer IS NULL", (time.time() + 900,))
        database.execute("UPDATE allowances SET until = ?", (time.time() + 86_400,))
        database.execute("UPDATE inbox SET update_id = -update_id")


@pytest.mark.sqlite
@pytest.mark.parametrize("day", QUESTIONS)
async def test_work_that_an_earlier_version_left_is_finished_and_its_grants_hold(tmp_path: Path, day: str):
    unpack(day, tmp_path / "gateway.db")
    async with open_harness(tmp_path, tools_dir=install_bells(tmp_path), guest_mode="on") as gateway:
        bob = gateway.api.person(BOB, "Bob")
        gateway.ann.send("/id")  # the simulated Telegram lets a bot write only to who has written to it
        bob.send("/id")
        team = open_group(gateway.api, gateway.ann, chat=SUPERGROUP) if day == GROUP_DAY else None
        async with gateway.run():
            await wait_for_message(gateway, "an answer that Telegram has not taken")
            await gateway.api.wait_until(lambda: any("stretch" in text for text in gateway.texts()))

            person = {"id": ADMIN, "is_bot": False, "first_name": "Ann"}
            message = {
                "message_id": QUESTIONS[day],
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
            if team is not None:
                await finish_work_of_others(gateway, team)
    assert load_rung_bells(tmp_path) == ["one", "three"]


async def finish_work_of_others(gateway: GatewayHarness, team: GroupHarness) -> None:
    """What was under way in a group that moved, and for a guest."""
    await wait_for_message(gateway, "an answer for the team", SUPERGROUP)
    await gateway.api.wait_until(lambda: any("order pizza" in text for text in team.texts()))
    # The simulated Telegram does not know the message that an earlier one showed the guest.
    await gateway.api.wait_until(
        lambda: any("an answer for a guest" in text for text in gateway.texts()), 2 * MAX_WAIT_SECONDS
    )
    gateway.ann.send("/notes@canvasgram_sim_bot", thread=team.group)
    await gateway.api.wait_until(lambda: any("pizza on Friday" in text for text in team.texts()))
