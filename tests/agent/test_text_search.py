"""Passages are found by words, stems and rarity, in any writing, and never grow."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.passages import PASSAGE_CHARS
from bot.agent.search_terms import build_terms, normalize
from bot.agent.text_search import find_passages, rank_pieces
from bot.agent.word_index import HEAD, PIECE_CHARS, WordIndex, build_word_index, list_buckets
from bot.bench.harness.prose import write_prose

FILLER_TEXTS = [write_prose(100, seed).strip() for seed in range(200)]


def find_texts(query: str, *texts: str) -> list[str]:
    return [passage.passage for passage in find_passages(query, (), documents=texts)]


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
        ("กุญแจอยู่ในลิ้นชักไหน", "สมชายเก็บกุญแจไว้ในลิ้นชักสีฟ้า"),
        ("ລະຫັດຕູ້", "ຢ່າລືມລະຫັດຕູ້ຂອງຂ້ອຍ"),
        ("សោរទូ", "កុំភ្លេចសោរទូរបស់ខ្ញុំ"),
        ("သော့", "ကျွန်တော့်သော့ကိုမမေ့ပါနဲ့"),
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
    lanterns = ["red lantern", "old lantern", "new lantern"]
    assert [
        passage.text_index for passage in find_passages("lantern", (), documents=["a stone", *lanterns])
    ] == [1, 2, 3]


def test_a_number_is_not_found_inside_another():
    assert find_texts("47", "It was 4711.") == []
    assert find_texts("cat", "Scatter the seeds.") == []


def test_a_part_of_a_longer_word_is_found():
    assert find_texts("vertrag", "Der Mietvertrag endet im Mai.") == ["Der Mietvertrag endet im Mai."]


def test_of_many_texts_a_common_word_still_decides_between_those_with_a_rarer_one():
    common = [f"The report of week {number}." for number in range(6000)]
    others = [f"A note of day {number}." for number in range(6000)]
    texts = [*common, "Zebras graze at noon.", "The report names zebras.", *others]
    assert find_texts("report zebras", *texts)[:2] == ["The report names zebras.", "Zebras graze at noon."]
    assert len(find_texts("report", *texts)) == 5


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


def test_accents_do_not_count():
    assert normalize("Йод, йод и Ёж; ёж и\u0306 Über") == "иод, иод и еж; еж и uber"


WILD = st.text(max_size=80) | st.sampled_from(
    ["cat", "cats", "47", "4711", "密码", "ﬁne ẞ İ", "a\u0301b", "aaaa" * 300]
)


@given(
    st.lists(WILD, max_size=4).map(" ".join), st.lists(st.lists(WILD, max_size=12).map(" ".join), max_size=5)
)
def test_any_words_and_texts_give_few_short_passages(query: str, texts: list[str]):
    passages = find_passages(query, texts[:2], documents=texts[2:])
    assert len(passages) <= 5
    assert all(len(passage.passage) <= PASSAGE_CHARS + 2 for passage in passages)
    for passage in passages:
        assert passage.passage.strip("…") in " ".join(texts[passage.text_index].split())


@given(st.text("bcdfghjklmnp", min_size=6, max_size=12), st.integers(0, 3 * PIECE_CHARS), st.integers(0, 199))
def test_a_word_is_found_wherever_it_stands(word: str, position: int, filler_index: int):
    text = write_prose(1000, 7)
    text = " ".join([text[:position], word, text[position:]])
    passages = find_passages(word, (), documents=[FILLER_TEXTS[filler_index], text])
    assert [passage.text_index for passage in passages] == [1]
    assert word in passages[0].passage


def test_what_answers_a_question_is_found_by_the_words_of_the_question():
    messages = ["And the dog?", "Coco and Rio.", "What are the parrots called?", "Two parrots moved in."]
    passages = find_passages("names of the parrots", [*FILLER_TEXTS[:50], *messages, *FILLER_TEXTS[50:]])
    assert [passage.passage for passage in passages[:3]] == [messages[3], messages[2], messages[1]]
    assert messages[1] not in find_texts("names of the parrots", *messages)


ASKED_IN_VAIN = (
    (
        "spare key",
        ("Where is the spare key?", "Do you know where I left the spare key?", "Who had the spare key last?"),
        ("I don't know where the spare key is.", "I have not heard of a spare key.", "You didn't say."),
        "The key hangs behind the boiler, the spare one too.",
    ),
    (
        "Ersatzschlüssel",
        ("Wo ist der Ersatzschlüssel?", "Weißt du, wo mein Ersatzschlüssel liegt?", "Ersatzschlüssel, wo?"),
        (
            "Das weiß ich nicht.",
            "Von einem Ersatzschlüssel weiß ich nichts.",
            "Das hast du mir nicht gesagt.",
        ),
        "Gefunden: der Ersatzschlüssel hängt im Keller hinter dem Kessel, neben der Lampe.",
    ),
    (
        "запасной ключ",
        ("Где запасной ключ?", "Ты не знаешь, где мой запасной ключ?", "У кого запасной ключ?"),
        ("Не знаю.", "Я ничего не знаю о запасном ключе.", "Ты мне не говорил."),
        "Ключ висит в подвале за котлом, запасной тоже.",
    ),
    (
        "备用钥匙",
        ("备用钥匙在哪里？", "你知道我的备用钥匙放在哪儿吗？", "谁拿了备用钥匙？"),
        ("我不知道。", "我不清楚备用钥匙的事。", "你没有告诉过我。"),
        "钥匙挂在锅炉后面，备用的也在那里。",
    ),
    (
        "กุญแจสำรอง",
        ("กุญแจสำรองอยู่ที่ไหน?", "รู้ไหมว่าฉันวางกุญแจสำรองไว้ไหน?", "ใครเอากุญแจสำรองไป?"),
        ("ไม่ทราบครับ", "ไม่เคยได้ยินเรื่องกุญแจสำรองเลย", "คุณยังไม่ได้บอกครับ"),
        "กุญแจแขวนอยู่หลังหม้อต้มน้ำ ดอกสำรองก็ด้วย",
    ),
)


@pytest.mark.parametrize(("words", "questions", "answers", "fact"), ASKED_IN_VAIN)
def test_a_fact_is_found_that_was_asked_for_in_vain_before(
    words: str, questions: Sequence[str], answers: Sequence[str], fact: str
):
    fillers = iter(FILLER_TEXTS)
    said = list[str]()
    for question, answer in zip([*questions, *questions], [*answers, *answers], strict=True):
        said += [question, answer, next(fillers), next(fillers), next(fillers)]
    said += [fact, "👍", *fillers]
    assert fact in [passage.passage for passage in find_passages(words, said[::-1])]


def build_index(query: str, parts: Sequence[str]) -> WordIndex:
    """The index of a text with only the buckets that this query is looked up in."""
    buckets = build_word_index(parts)
    needed = {HEAD, *list_buckets(build_terms(query))}
    return WordIndex({bucket: words for bucket, words in buckets.items() if bucket in needed})


WORDS = ("The", "harbours", "lantern", "lanterns", "4711", "密码在抽屉里", "สีฟ้า", "Verträge", "a", "x" * 50)


@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join), min_size=1, max_size=4),
    st.sampled_from(["lantern", "harbour", "4711", "密码", "抽", "สีฟ้า", "vertrag", "a"]),
)
def test_an_index_has_the_pieces_that_reading_finds(parts: list[str], query: str):
    read = rank_pieces(query, (), parts).pieces
    indexed = rank_pieces(query, (), (), [build_index(query, parts)]).pieces
    assert {(piece.part, piece.start) for piece in indexed} == {
        (piece.text_index, piece.start) for piece in read
    }


def test_a_passage_of_an_indexed_text_names_its_part():
    pages = [write_prose(900, 1), f"{write_prose(400, 2)} The zebra sleeps here. {write_prose(400, 3)}"]
    indexes = [build_index("zebras", parts) for parts in (FILLER_TEXTS[:3], pages)]
    ranking = rank_pieces("zebras", ["a message"], ["a document"], indexes)
    texts = {(3, part): page for part, page in enumerate(pages)}
    [passage] = ranking.choose_passages(texts, limit=5)
    assert (passage.text_index, passage.part) == (3, 1)
    assert "The zebra sleeps here." in passage.passage
