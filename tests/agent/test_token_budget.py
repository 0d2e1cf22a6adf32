from hypothesis import given
from hypothesis import strategies as st

from bot.agent import history
from bot.agent.history import estimate_tokens
from bot.agent.token_budget import IMAGE_LEFT_OUT, MIN_RESULT_CHARS, TokenBudget
from bot.domain import Image, Message, ToolCall
from bot.tool_registry import toolbox
from tools.base import tool


def make_tool_messages(*texts: str) -> list[Message]:
    return [Message("tool", text, call_id=str(number)) for number, text in enumerate(texts)]


def test_results_that_fit_are_unchanged():
    results = make_tool_messages("a" * 400, "b" * 400)
    budget = TokenBudget(estimate_tokens(results))
    assert budget.fit_results(results) == results
    assert budget.is_full


def test_a_long_result_is_shortened_and_says_by_how_much():
    [result] = TokenBudget(1000).fit_results(make_tool_messages("x" * 8000))
    assert estimate_tokens([result]) <= 1000
    kept_text, note = result.text.split("\n")
    assert len(kept_text) > 3900
    assert note == f"[… {8000 - len(kept_text)} characters left out]"


def test_the_share_that_short_results_leave_is_for_the_long_ones():
    long, short = TokenBudget(1000).fit_results(make_tool_messages("x" * 8000, "tiny"))
    assert short.text == "tiny"
    assert len(long.text) > 3800


def test_what_the_toolbox_has_left_out_counts_too():
    [result] = TokenBudget(500).fit_results(
        make_tool_messages("x" * 8000 + "\n[… 12000 characters left out]")
    )
    kept_text, note = result.text.split("\n")
    assert note == f"[… {20_000 - len(kept_text)} characters left out]"


@tool(outside=True)
async def fetch() -> str:
    """Fetch."""
    return ""


def test_text_of_others_stays_marked_and_read_more_continues_where_it_was_cut_again():
    text = "".join(f"{number:05d} " for number in range(5000))
    marked = toolbox.render_result(fetch, text, len(text), 7)
    assert "characters left out; read_more with number 7 and start 8000 goes on]" in marked
    [result] = TokenBudget(500).fit_results(make_tool_messages(marked))
    assert estimate_tokens([result]) <= 500
    head, kept_text, end, note = result.text.split("\n")
    assert (head, end) == ("[data: result of fetch]", "[end of data]")
    left_out = len(text) - len(kept_text)
    start = len(kept_text)
    assert note == f"[… {left_out} characters left out; read_more with number 7 and start {start} goes on]"
    [shortened] = history.shorten_turn([Message("tool", marked, call_id="0")])
    assert shortened.text.split("\n")[-2] == "[end of data]"


def test_pictures_cost_tokens_and_are_dropped_before_the_text():
    result = Message("tool", "x" * 8000, call_id="0", images=(Image("image/png", b"1"),))
    [fitted] = TokenBudget(2000).fit_results([result])
    assert fitted.images == result.images
    assert 1900 < estimate_tokens([fitted]) <= 2000
    [fitted] = TokenBudget(500).fit_results([result])
    assert fitted.images == ()
    assert fitted.text.startswith(IMAGE_LEFT_OUT + "\nxxx")


def test_the_beginning_of_a_result_stays_however_small_the_budget():
    budget = TokenBudget(0)
    assert budget.is_full
    [result] = budget.fit_results(make_tool_messages("x" * 8000))
    assert result.text == "x" * MIN_RESULT_CHARS + "\n[… 7500 characters left out]"


def test_reasoning_and_calls_cost_tokens_as_well():
    budget = TokenBudget(400)
    assert not budget.is_full
    budget.spend([Message("assistant", calls=(ToolCall("a", "look", "{}"),), reasoning="hm " * 400)])
    assert budget.is_full


@given(st.lists(st.text(st.sampled_from("aé🎉\n"), max_size=3000), max_size=6), st.integers(0, 5000))
def test_results_fit_the_budget_and_none_gets_longer(texts, tokens):
    results = make_tool_messages(*texts)
    fitted = TokenBudget(tokens).fit_results(results)
    assert [result.call_id for result in fitted] == [result.call_id for result in results]
    for before, after in zip(results, fitted, strict=True):
        kept_text = after.text
        if after.text != before.text:
            kept_text = after.text.rpartition("\n[… ")[0]
        assert before.text.startswith(kept_text)
        assert len(after.text) <= len(before.text)
        assert len(kept_text) >= min(MIN_RESULT_CHARS, len(before.text))
    least = sum(estimate_tokens(make_tool_messages("🎉" * (MIN_RESULT_CHARS + 50))) for _ in texts)
    assert estimate_tokens(fitted) <= max(tokens, least)
