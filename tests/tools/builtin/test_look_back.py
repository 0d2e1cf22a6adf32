from tools.arguments import check_arguments
from tools.base import ToolContext, run_tool_text
from tools.builtin.look_back import look_back


async def test_what_is_found_is_told_with_its_day_and_whose_it_is(context: ToolContext):
    assert await run_tool_text(look_back, check_arguments(look_back, {"words": "code"}), context) == (
        "2026-11-18, the user: The locker code is 4711.\n\n2026-11-19, document lease.pdf: … the code of the door …"
    )


async def test_that_nothing_is_found_is_said(context: ToolContext):
    assert (await run_tool_text(look_back, {"words": "zebra"}, context)).startswith("Nothing earlier")


def test_what_is_found_may_be_words_of_others():
    assert look_back.outside


def test_it_is_light_and_harmless():
    assert (look_back.repeatable, look_back.thinking) == (True, "never")
