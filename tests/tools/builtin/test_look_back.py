"""Looking back: what is found is shown with its date and source."""

from tools.arguments import check_arguments
from tools.base import ToolContext, run_tool
from tools.builtin.look_back import look_back


async def test_passages_are_shown_with_their_date_and_source(context: ToolContext):
    assert (await run_tool(look_back, check_arguments(look_back, {"words": "code"}), context)).text == (
        "2026-11-18, the user: The locker code is 4711.\n\n"
        "2026-11-19, document lease.pdf: … the code of the door …"
    )


async def test_a_search_without_results_says_so(context: ToolContext):
    assert (await run_tool(look_back, {"words": "zebra"}, context)).text.startswith("Nothing earlier")


def test_its_results_are_outside_text():
    assert look_back.outside


def test_it_is_repeatable_and_needs_no_thinking():
    assert (look_back.repeatable, look_back.thinking) == (True, "never")
