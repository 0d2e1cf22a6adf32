"""kill -9 in a group: in the middle of an answer, and around the commits of its migration."""

from functools import partial

from bot.bench.harness.prose import write_prose
from bot.sim.vllm.server import Timing
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.kill.gateway import PATIENCE
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.group_chat import GroupHarness, open_group

PROSE = write_prose(150, 1)[1:] + " "
OLD = -500
NEW = -1000000000500
REMEMBER = '@@tool:remember {"note": "pizza"}@@@@say:kept@@'
TABLES = ("inbox", "jobs", "lanes", "notes", "outbox", "turns")


async def open_team(environment: KillEnvironment, *, is_basic: bool = False) -> GroupHarness:
    """A group that the bot has introduced itself in."""
    chat = OLD if is_basic else NEW
    team = open_group(environment.api, environment.ann, chat=chat, is_basic=is_basic)
    await environment.until(team.texts)
    await environment.wait_until_idle()
    return team


async def test_in_the_middle_of_an_answer_to_one_while_another_waits(surround: OpenEnvironment):
    environment = await surround(ScriptedEndpoint(timing=Timing(canvas_seconds=0.3)))
    team = await open_team(environment)
    asked = team.ann.send(f"/ask @@repeat:4 {PROSE}@@", thread=team.group)
    await environment.endpoint.wait_until(
        lambda: any(request.canvases for request in environment.endpoint.requests), PATIENCE
    )
    environment.endpoint.hold()
    team.ben.send("/ask @@say:for Ben@@", thread=team.group)
    await environment.wait_for_row("select 1 from outbox where state = 'open'")
    shown = team.group.chat.bot_messages[-1]
    await environment.gateway.kill()
    environment.endpoint.release()
    await environment.gateway.start()
    await environment.until(lambda: team.texts()[-1] == "for Ben")
    await environment.wait_until_idle()
    environment.assert_all_accounted()
    assert team.texts()[1:] == [(PROSE * 4).strip(), "for Ben"]
    assert team.group.chat.bot_messages[1].message_id == shown.message_id
    assert shown.raw["reply_to_message"]["message_id"] == asked.message_id


async def test_a_turn_goes_on_in_the_supergroup_that_its_group_became_meanwhile(surround: OpenEnvironment):
    environment = await surround()
    team = await open_team(environment, is_basic=True)
    environment.endpoint.hold()
    team.ann.send(f"/ask@canvasgram_sim_bot {REMEMBER}", thread=team.group)
    await environment.wait_for_requests()
    await environment.gateway.kill()
    team.group.migrate(NEW)
    environment.endpoint.release()
    await environment.gateway.start()
    await wait_for_answer(environment, NEW, "kept")
    assert environment.load_rows("select lane, text from notes") == [(str(OLD), "pizza")]


async def test_around_the_commits_of_a_migration(surround: OpenEnvironment):
    environment = await surround()
    kills = 0
    for number, moment in enumerate(("before 1", "after 2", "before 4", "after 4"), start=1):
        kills += await is_killed_in_migration(environment, number, moment)
    assert kills >= 2


async def is_killed_in_migration(environment: KillEnvironment, number: int, moment: str) -> bool:
    """Whether the gateway killed itself while a group became a supergroup; nothing is lost or left behind."""
    old_chat, new_chat = OLD - number, NEW - number
    team = open_group(environment.api, environment.ann, chat=old_chat, is_basic=True)
    await environment.until(team.texts)
    team.ann.send(f"/ask@canvasgram_sim_bot {REMEMBER}", thread=team.group)
    await environment.until(lambda: team.texts()[-1] == "kept")
    await environment.wait_until_idle()
    await environment.gateway.arm(moment)
    supergroup = team.group.migrate(new_chat)
    has_died = await environment.revive(partial(wait_for_move, environment, new_chat))
    team.ann.send("/ask@canvasgram_sim_bot @@say:here@@", thread=supergroup)
    await wait_for_answer(environment, new_chat, "here")
    for table in TABLES:
        assert environment.load_rows(f"select * from {table} where lane = '{new_chat}'") == [], table
    assert environment.load_rows(f"select text from notes where lane = '{old_chat}'") == [("pizza",)]
    return has_died


async def wait_for_move(environment: KillEnvironment, new_chat: int) -> None:
    await environment.wait_for_row(f"select 1 from groups where other_chat = {new_chat}")
    await environment.wait_until_idle()


async def wait_for_answer(environment: KillEnvironment, chat: int, text: str) -> None:
    """Wait for the answer, which is all that the bot says in a supergroup."""
    await environment.until(lambda: environment.texts(chat))
    await environment.wait_until_idle()
    assert environment.texts(chat) == [text]
    environment.assert_all_accounted()
