"""`bench questions` counts the requests that were asked back, by language and kind."""

from collections import Counter

from bot.bench.endpoint.questions_back import read_cases, run_questions
from bot.bench.endpoint.run import EndpointAddress
from bot.bench.endpoint.simulated import SIMULATED_ADDRESS
from bot.sim.vllm.script import ChatRequest, format_tool_call
from bot.tables import TextTable
from tests.support.endpoint.server import ScriptedEndpoint


def ask_about_dates(request: ChatRequest) -> str:
    """A brain that asks back about what is to be moved."""
    if any(word in request.user_texts[-1] for word in ("Verschieb", "Déplacez")):
        return format_tool_call("ask", {"question": "Which?"})
    return "Done."


def test_there_are_sixty_clear_requests_and_forty_others_in_five_languages():
    cases = read_cases()
    assert Counter(case.kind for case in cases) == {"clear": 60, "unclear": 40}
    assert set(Counter((case.language, case.kind) for case in cases).values()) == {12, 8}
    assert len({case.text for case in cases}) == 100


async def test_questions_are_counted_and_a_simulated_model_is_said_to_be_none():
    steps = list[int]()
    _, notice, table = await run_questions(
        EndpointAddress(SIMULATED_ADDRESS),
        lambda _task, done, _total: steps.append(done),
        ScriptedEndpoint(brain=ask_about_dates),
    )
    assert steps[-1] == 100
    assert "no model ran" in str(notice)
    assert isinstance(table, TextTable)
    assert len(table.rows) == 10
    asked = [row for row in table.rows if row[3] != "0"]
    assert asked == [("de", "unclear", "8", "1"), ("fr", "unclear", "8", "1")]
