"""A message in, an answer out: the whole house over loopback."""

from pathlib import Path

from tests.house import open_house


async def test_a_message_is_answered(tmp_path: Path):
    async with open_house(tmp_path) as house:
        house.ann.send("@@say:Hello, **Ann**!@@")
        assert await house.answered() == ["Hello, Ann!"]


async def test_a_tool_is_run_and_its_result_used(tmp_path: Path):
    async with open_house(tmp_path) as house:
        house.ann.send('@@tool:calculate {"expression": "6*7"}@@@@say:It is 42.@@')
        assert await house.answered() == ["It is 42."]
        assert "42" in str(house.endpoint.requests[-1].body["messages"])


async def test_messages_that_wait_together_are_answered_in_one_turn(tmp_path: Path):
    async with open_house(tmp_path) as house:
        house.ann.send("@@slow:300@@@@say:first@@")
        await house.api.until(lambda: house.endpoint.requests)
        house.ann.send("second")
        house.ann.send("@@say:both@@")
        assert await house.answered(2) == ["first", "both"]
