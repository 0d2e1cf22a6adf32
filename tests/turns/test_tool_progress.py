"""What a tool reports while it runs: shown in its chat, from any thread, and gone when the call ends."""

import asyncio

from bot.db.engine import Database
from tests.support.turn_harness import ScriptedModel, TurnHarness, make_call, make_reply
from tools.base import ToolContext, tool


async def test_the_newest_line_of_a_running_call_is_shown(database: Database):
    second_has_reported = asyncio.Event()

    @tool
    async def first(context: ToolContext) -> str:
        """Work."""
        assert context.show_progress is not None
        context.show_progress("1 of 2")
        await second_has_reported.wait()
        return "first"

    @tool
    def second(context: ToolContext) -> str:
        """Work in a thread."""
        assert context.show_progress is not None
        for _ in range(3):
            context.show_progress("*half*")
        return "second"

    @tool
    async def third(context: ToolContext) -> str:
        """Report nothing."""
        while "second: half" not in harness.channel.status_lines:
            harness.channel.status_shown.clear()
            await harness.channel.status_shown.wait()
        second_has_reported.set()
        return "third"

    model = ScriptedModel(
        [
            make_reply("", *(make_call(name, id=name) for name in ("first", "second", "third"))),
            make_reply("Done."),
        ]
    )
    harness = TurnHarness(database, model, [first, second, third])
    await harness.build_runner().run(await harness.new_request("work"))
    assert await harness.load_answers() == ["Done."]
    shown = [line for line in harness.channel.status_lines if line]
    assert set(shown) == {"first: 1 of 2", "second: half"}
    assert harness.channel.status_lines[-1] is None
