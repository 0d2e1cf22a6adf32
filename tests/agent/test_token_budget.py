from hypothesis import given
from hypothesis import strategies as st

from bot.agent import history, toolbox
from bot.agent.history import estimate_tokens
from bot.agent.token_budget import IMAGE_LEFT_OUT, MIN_RESULT_CHARS, TokenBudget
from bot.domain import Image, Message, ToolCall
from tools.base import tool


def make_tool_messages(*texts: str) -> list[Message]:
    return [Message("tool", text, call_id=str(number)) for number, text in enumerate(texts)]


def test_results_that_fit_stay_as_they_are():
    results = make_tool_messages("a" * 400, "b" * 400)
    room = TokenBudget(estimate_tokens(results))
    assert room.fit_results(results) == results
    assert room.is_full


def test_without_a_bound_nothing_is_shortened():
    room, results = TokenBudget(None), make_tool_messages("x" * 100_000)
    room.spend([Message("assistant", "y" * 100_000)])
    assert room.fit_results(results) == results
    assert not room.is_full


def test_a_long_result_is_shortened_and_says_by_how_much():
    [result] = TokenBudget(1000).fit_results(make_tool_messages("x" * 8000))
    assert estimate_tokens([result]) <= 1000
    kept, note = result.text.split("\n")
    assert len(kept) > 3900
    assert note == f"[… {8000 - len(kept)} characters left out]"


def test_what_short_results_leave_of_their_share_is_for_the_long_ones():
    long, short = TokenBudget(1000).fit_results(make_tool_messages("x" * 8000, "tiny"))
    assert short.text == "tiny"
    assert len(long.text) > 3800


def test_what_the_toolbox_has_left_out_counts_too():
    [result] = TokenBudget(500).fit_results(
        make_tool_messages("x" * 8000 + "\n[… 12000 characters left out]")
    )
    kept, note = result.text.split("\n")
    assert note == f"[… {20_000 - len(kept)} characters left out]"


@tool(outside=True)
async def fetch() -> str:
    """Fetch."""
    return ""


def test_words_of_others_stay_marked_and_can_be_read_on_where_they_are_cut_again():
    words = "".join(f"{number:05d} " for number in range(5000))
    marked = toolbox.render_result(fetch, words, len(words), 7)
    assert "characters left out; read_more with number 7 and start 8000 goes on]" in marked
    [result] = TokenBudget(500).fit_results(make_tool_messages(marked))
    assert estimate_tokens([result]) <= 500
    head, kept, end, note = result.text.split("\n")
    assert (head, end) == ("[data: result of fetch]", "[end of data]")
    left_out = len(words) - len(kept)
    assert (
        note == f"[… {left_out} characters left out; read_more with number 7 and start {len(kept)} goes on]"
    )
    [old] = history.shorten_turn([Message("tool", marked, call_id="0")])
    assert old.text.split("\n")[-2] == "[end of data]"


def test_pictures_take_room_and_leave_before_the_words_do():
    drew = Message("tool", "x" * 8000, call_id="0", images=(Image("image/png", b"1"),))
    [kept] = TokenBudget(2000).fit_results([drew])
    assert kept.images == drew.images
    assert 1900 < estimate_tokens([kept]) <= 2000
    [kept] = TokenBudget(500).fit_results([drew])
    assert kept.images == ()
    assert kept.text.startswith(IMAGE_LEFT_OUT + "\nxxx")


def test_the_beginning_of_a_result_stays_however_little_room_there_is():
    room = TokenBudget(0)
    assert room.is_full
    [result] = room.fit_results(make_tool_messages("x" * 8000))
    assert result.text == "x" * MIN_RESULT_CHARS + "\n[… 7500 characters left out]"


def test_thoughts_and_calls_take_room_as_well():
    room = TokenBudget(400)
    assert not room.is_full
    room.spend([Message("assistant", calls=(ToolCall("a", "look", "{}"),), reasoning="hm " * 400)])
    assert room.is_full


@given(st.lists(st.text(st.sampled_from("aé🎉\n"), max_size=3000), max_size=6), st.integers(0, 5000))
def test_results_stay_whole_or_within_the_room_and_none_is_longer_than_it_was(texts, tokens):
    results = make_tool_messages(*texts)
    fitted = TokenBudget(tokens).fit_results(results)
    assert [one.call_id for one in fitted] == [one.call_id for one in results]
    for before, after in zip(results, fitted, strict=True):
        kept = after.text.rpartition("\n[… ")[0] if after.text != before.text else after.text
        assert before.text.startswith(kept)
        assert len(after.text) <= len(before.text)
        assert len(kept) >= min(MIN_RESULT_CHARS, len(before.text))
    least = sum(estimate_tokens(make_tool_messages("🎉" * (MIN_RESULT_CHARS + 50))) for _ in texts)
    assert estimate_tokens(fitted) <= max(tokens, least)
