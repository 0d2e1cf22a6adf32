"""Passages are found by words, stems and rarity, in any writing, and never grow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.text_search import PASSAGE_CHARS, PIECE_CHARS, find_passages
from bot.bench.harness.prose import write_prose

FILLER_TEXTS = [write_prose(100, seed).strip() for seed in range(200)]


def find_texts(query: str, *texts: str) -> list[str]:
    return [passage.passage for passage in find_passages(query, texts)]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("locker code", "My locker code is 4711."),
        ("calculations", "We calculated the fare to Porto."),
        ("4711", "Der Code für den Spind ist 4711."),
        ("SPINDE code?", "Der Code für den Spind ist 4711."),
        ("Verträge", "Der Vertrag liegt im dritten Fach."),
        ("Mietvertrag", "Der Mietvertrag endet im Mai."),
        ("встреча", "Встречу назначили у старого маяка."),
        ("العقد", "لا تنس العقد في الدرج"),
        ("密码", "我的储物柜密码是4711，别忘了。"),
        ("会議の場所", "来週の会議は大阪で行います。"),
        ("암호", "사물함 암호는 4711입니다."),
        ("पासवर्ड", "मेरा पासवर्ड नीली डायरी में है"),
        ("who is it", "And who is it then?"),
    ],
)
def test_a_text_is_found_by_its_words_in_any_language(query: str, text: str):
    assert find_texts(query, *FILLER_TEXTS[:100], text, *FILLER_TEXTS[100:])[:1] == [text]


def test_an_exact_word_ranks_before_its_relatives():
    assert find_texts("car", *["Please carry on."] * 60, "The car is red.")[0] == "The car is red."


def test_a_rare_word_ranks_before_a_common_one():
    common = [f"The report of week {number} is done." for number in range(50)]
    assert find_texts("report about zebras", *common, "Zebras graze at noon.")[0] == "Zebras graze at noon."


def test_words_close_together_rank_before_the_same_words_far_apart():
    apart = "harbour" + " and so on" * 50 + " lantern"
    assert find_texts("harbour lantern", apart, "a lantern at the harbour")[0] == "a lantern at the harbour"


def test_of_equal_passages_the_first_text_comes_first():
    assert [
        passage.text_index
        for passage in find_passages("lantern", ["red lantern", "old lantern", "new lantern"])
    ] == [
        0,
        1,
        2,
    ]


def test_a_number_is_not_found_inside_another():
    assert find_texts("47", "It was 4711.") == []
    assert find_texts("cat", "Scatter the seeds.") == []


def test_a_part_of_a_longer_word_is_found():
    assert find_texts("vertrag", "Der Mietvertrag endet im Mai.") == ["Der Mietvertrag endet im Mai."]


def test_duplicate_passages_are_returned_once():
    assert find_texts("locker", "My locker is blue.", "my locker: is blue", "The locker of Bo is shut.") == [
        "My locker is blue.",
        "The locker of Bo is shut.",
    ]


def test_poor_matches_are_left_out():
    assert find_texts("blue locker code", "The locker code: 4711, on the blue one.", "The sky is blue.") == [
        "The locker code: 4711, on the blue one."
    ]


def test_a_long_text_gives_the_words_around_each_match():
    before, between, after = (write_prose(500, seed) for seed in (1, 2, 3))
    text = f"{before} first zebra here. {between} second zebra there. {after}"
    first, second = find_texts("zebra", text)
    assert "first zebra here" in first
    assert "second zebra there" in second
    assert first.startswith("…")
    assert first.endswith("…")


@pytest.mark.parametrize("query", ["", "???", "\ud800", "   "])
def test_without_words_nothing_is_found(query: str):
    assert find_texts(query, *FILLER_TEXTS) == []


WILD = st.text(max_size=80) | st.sampled_from(
    ["cat", "cats", "47", "4711", "密码", "ﬁne ẞ İ", "a\u0301b", "aaaa" * 300]
)


@given(
    st.lists(WILD, max_size=4).map(" ".join), st.lists(st.lists(WILD, max_size=12).map(" ".join), max_size=5)
)
def test_any_words_and_texts_give_few_short_passages(query: str, texts: list[str]):
    passages = find_passages(query, texts)
    assert len(passages) <= 5
    assert all(len(passage.passage) <= PASSAGE_CHARS + 2 for passage in passages)
    for passage in passages:
        assert passage.passage.strip("…") in " ".join(texts[passage.text_index].split())


@given(st.text("bcdfghjklmnp", min_size=6, max_size=12), st.integers(0, 3 * PIECE_CHARS), st.integers(0, 199))
def test_a_word_is_found_wherever_it_stands(word: str, position: int, filler_index: int):
    text = write_prose(1000, 7)
    text = " ".join([text[:position], word, text[position:]])
    passages = find_passages(word, [FILLER_TEXTS[filler_index], text])
    assert [passage.text_index for passage in passages] == [1]
    assert word in passages[0].passage
