"""A database that is held, or on a full disk, delays the gateway, which says so once, and never ends it."""

import resource

import pytest

from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.support.held_database import FULL_DISK_BYTES, hold_database

CANNOT_STORE = "I can't store new messages"


def count_lines(environment: KillEnvironment, action: str) -> int:
    return environment.gateway.output.count(f" {action} ")


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])  # the latter keeps out readers
async def test_a_start_waits_for_a_database_that_is_held(surround: OpenEnvironment, statement: str):
    environment = await surround(start=False)
    async with hold_database(environment.folder / "gateway.db", statement):
        environment.ann.send("@@say:here I am@@")
        await environment.gateway.spawn()
        await environment.gateway.wait_for_output("store.away")
    await environment.wait_for_answers("here I am")
    await environment.gateway.wait_for_output("store.back")
    assert count_lines(environment, "store.away") == 1


async def test_a_start_waits_for_room_on_a_full_disk(surround: OpenEnvironment):
    environment = await surround(plain=True, start=False)
    environment.gateway.launch = ("sh", "-c", f'ulimit -S -f {FULL_DISK_BYTES // 512}; exec "$@"', "sh")
    environment.ann.send("@@say:here I am@@")
    await environment.gateway.spawn()
    await environment.gateway.wait_for_output("store.away")
    environment.gateway.limit_file_size(resource.RLIM_INFINITY)
    await environment.wait_for_answers("here I am")
    await environment.gateway.wait_for_output("store.back")
    assert count_lines(environment, "store.away") == 1


async def test_work_waits_for_room_on_a_full_disk(surround: OpenEnvironment):
    environment = await surround()
    environment.gateway.limit_file_size(FULL_DISK_BYTES)
    environment.ann.send("@@say:here I am@@")
    await environment.gateway.wait_for_output("store.away")
    await environment.until(lambda: any(CANNOT_STORE in text for text in environment.texts()))
    environment.gateway.limit_file_size(resource.RLIM_INFINITY)
    await environment.until(lambda: "here I am" in environment.texts())
    await environment.wait_until_idle()
    environment.assert_all_accounted()
    # A small write may fit in between: each time it is full is said once.
    await environment.gateway.wait_for_output("store.back", count_lines(environment, "store.away"))
    assert count_lines(environment, "store.away") == count_lines(environment, "store.back")


async def test_a_start_where_nobody_may_write_says_what_to_do(surround: OpenEnvironment):
    url = "sqlite+aiosqlite:////sys/canvasgram.db"  # where root may not write either
    environment = await surround(start=False, database_url=url)
    await environment.gateway.spawn()
    assert await environment.gateway.wait_for_exit() == 2
    [line] = environment.gateway.output.splitlines()
    assert line.startswith("DATABASE_URL: /sys/canvasgram.db cannot be written (")


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
async def test_it_stops_while_a_start_waits_for_the_database(surround: OpenEnvironment, statement: str):
    environment = await surround(start=False)
    async with hold_database(environment.folder / "gateway.db", statement):
        await environment.gateway.spawn()
        await environment.gateway.wait_for_output("store.away")
        (code, _) = await environment.gateway.terminate()  # the database is held until after that
    assert code == 0


async def test_work_waits_for_a_database_that_is_held(surround: OpenEnvironment):
    environment = await surround()
    async with hold_database(environment.folder / "gateway.db"):
        environment.ann.send("@@say:here I am@@")
        await environment.gateway.wait_for_output("store.away")
        await environment.until(lambda: any(CANNOT_STORE in text for text in environment.texts()))
    await environment.until(lambda: "here I am" in environment.texts())
    await environment.wait_until_idle()
    environment.assert_all_accounted()
    await environment.gateway.wait_for_output("store.back")
    assert count_lines(environment, "store.away") == 1


async def test_it_stops_while_work_waits_for_the_database(surround: OpenEnvironment):
    environment = await surround()
    environment.endpoint.hold()
    environment.ann.send("@@say:here I am@@")
    await environment.wait_for_requests()
    async with hold_database(environment.folder / "gateway.db"):
        environment.endpoint.release()
        await environment.gateway.wait_for_output("store.away")
        (code, _) = await environment.gateway.terminate()  # the database is held until after that
    assert code == 0
    await environment.gateway.start()
    await environment.wait_for_answers("here I am")
