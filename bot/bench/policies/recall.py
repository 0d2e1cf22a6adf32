"""`bench recall`: how often the search finds what answers a question; BM25 beside it.

Builds the report; prints nothing. Asks the search by words alone: no model, no database.
"""

import gzip
import heapq
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from time import thread_time
from typing import Any

from bot.agent.text_search import MAX_PASSAGES, TextPassage, find_passages
from bot.bench.harness import machine
from bot.bench.harness.gateway_process import BenchFailed
from bot.bench.harness.statistics import median, percentile
from bot.bench.policies.output import PolicyReport, PrintLine
from bot.bench.policies.typed_reads import ReadCase, ReadOutcome
from bot.errors import QuestionRefused
from bot.llm.search_questions import (
    MAX_READ,
    ask_about_passages,
    describe_passages,
    order_passages,
    read_passage_chances,
)
from bot.llm.typed_reads import TypedReading

MAX_QUESTIONS = 300  # of a file of paragraphs: spread evenly over all of them
MAX_RANK = 10
CATEGORIES = {1: "several pieces", 2: "time", 3: "inference", 4: "one piece"}
BM25_K1 = 1.2
BM25_B = 0.75

TITLES = ("evidence found", "questions", "at 1", "at 5", "at 10", "BM25 at 1", "at 5", "at 10")

_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_BM25_WORD = re.compile(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]+")


@dataclass(frozen=True, slots=True)
class Recall:
    """Shares of questions, 0 to 1, with evidence among the first one, five and ten."""

    at_1: float
    at_5: float
    at_10: float


@dataclass(frozen=True, slots=True)
class RecallScore:
    """How often evidence is found, and how often by BM25. `group` is a set of data, or a part of one."""

    group: str
    questions: int
    found: Recall
    bm25: Recall

    def format_cells(self) -> tuple[str, ...]:
        """A row of the table."""
        shares = (*astuple(self.found), *astuple(self.bm25))
        return (self.group, str(self.questions), *(f"{share:.3f}" for share in shares))


@dataclass(frozen=True, slots=True)
class _Case:
    """A question, the indexes of the texts of which one must be found, and the texts.

    These are a conversation, the newest message first, or documents.
    """

    group: str
    part: str
    question: str
    evidence: frozenset[int]
    texts: tuple[str, ...]
    is_conversation: bool


@dataclass(frozen=True, slots=True)
class _CaseResult:
    """The ranks of the first evidence, from 0; None if it is not among the first MAX_RANK."""

    case: _Case
    rank: int | None
    bm25_rank: int | None
    seconds: float


def run_recall(folder: Path, print_line: PrintLine = lambda line: None) -> PolicyReport[RecallScore]:
    """Score the data in a folder; `pace` is in milliseconds of processor time.

    Raises QuestionRefused if there is none, BenchFailed, naming the file, for an invalid one.
    """
    results = list[_CaseResult]()
    for path in _list_files(folder):
        print_line(f"searching: {path}")
        bm25_indexes: dict[tuple[str, ...], _Bm25] = {}
        for case in _read_cases(path):
            if case.texts not in bm25_indexes:
                bm25_indexes[case.texts] = _Bm25(case.texts)
            results.append(_search_case(case, bm25_indexes[case.texts]))
    searches = [1e3 * result.seconds for result in results]
    pace = {"search": median(searches) or 0.0, "longest": percentile(searches, 0.99) or 0.0}
    note = (
        "search: {search:.1f} ms of processor time, 99 of 100 within {longest:.1f} ms, the texts in memory"
    ).format(**pace)
    return PolicyReport(TITLES, tuple(_score_groups(results)), _describe_conditions(), pace, (note,))


def list_read_cases(folder: Path) -> Iterator[ReadCase]:
    """What is read of the questions that several passages may answer: whether the few best hold evidence."""
    cases = (case for path in _list_files(folder) for case in _read_cases(path))
    reads = (_build_read_case(case, _find_passages(case, MAX_READ)) for case in cases)
    return (read for read in reads if read.questions)


def _build_read_case(case: _Case, passages: Sequence[TextPassage]) -> ReadCase:
    is_evidence = [passage.text_index in case.evidence for passage in passages]

    def judge(reading: TypedReading) -> ReadOutcome:
        chances = read_passage_chances(reading, len(passages))
        best = order_passages(chances)[:MAX_PASSAGES]
        is_right = any(is_evidence[index] for index in best)
        return ReadOutcome(is_right, list(zip(chances, is_evidence, strict=True)))

    state = describe_passages(case.question, [passage.passage for passage in passages])
    return ReadCase(ask_about_passages(len(passages)), state, any(is_evidence[:MAX_PASSAGES]), judge)


def _list_files(folder: Path) -> list[Path]:
    paths = sorted([*folder.glob("conversations*.json.gz"), *folder.glob("paragraphs.*.json.gz")])
    if not paths:
        raise QuestionRefused(f"No conversations.json.gz or paragraphs.*.json.gz lie in {folder}.")
    return paths


def _read_cases(path: Path) -> list[_Case]:
    try:
        data = json.loads(gzip.decompress(path.read_bytes()))
        if path.name.startswith("conversations"):
            return [case for conversation in data for case in _read_conversation(conversation)]
        return _read_paragraphs(data)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise BenchFailed(f"{path} holds no data for this: {type(error).__name__}: {error}") from error


def _read_conversation(conversation: Mapping[str, Any]) -> Iterator[_Case]:
    newest_first = conversation["messages"][::-1]
    texts = tuple(f"{message['speaker']}: {message['text']}" for message in newest_first)
    positions = {message["id"]: index for index, message in enumerate(newest_first)}
    for row in conversation["questions"]:
        evidence = frozenset(positions[name] for name in row["evidence"] if name in positions)
        if evidence:
            part = CATEGORIES.get(row["category"], "other")
            yield _Case("conversations", part, row["question"], evidence, texts, is_conversation=True)


def _read_paragraphs(data: Mapping[str, Any]) -> list[_Case]:
    texts = tuple(data["paragraphs"])
    step = max(1, len(data["questions"]) // MAX_QUESTIONS)
    rows = data["questions"][::step][:MAX_QUESTIONS]
    group = f"paragraphs {data['language']}"
    return [
        _Case(group, "", row["question"], frozenset({row["paragraph"]}), texts, is_conversation=False)
        for row in rows
    ]


def _search_case(case: _Case, bm25: "_Bm25") -> _CaseResult:
    started_at = thread_time()
    passages = _find_passages(case, MAX_RANK)
    seconds = thread_time() - started_at
    text_indexes = [passage.text_index for passage in passages]
    return _CaseResult(
        case,
        _find_rank(text_indexes, case.evidence),
        _find_rank(bm25.rank(case.question), case.evidence),
        seconds,
    )


def _find_passages(case: _Case, limit: int) -> list[TextPassage]:
    messages, documents = (case.texts, ()) if case.is_conversation else ((), case.texts)
    return find_passages(case.question, messages, limit, documents)


def _find_rank(text_indexes: Sequence[int], evidence: frozenset[int]) -> int | None:
    ranks = (rank for rank, text_index in enumerate(text_indexes) if text_index in evidence)
    return next(ranks, None)


class _Bm25:
    """The classic ranking, to compare with: words as they stand, pairs of characters where no blanks are."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._lengths = []
        for text_index, text in enumerate(texts):
            words = _split_bm25_words(text)
            self._lengths.append(len(words))
            for word, count in Counter(words).items():
                self._counts[word].append((text_index, count))
        self._mean_length = sum(self._lengths) / max(1, len(texts))

    def rank(self, question: str) -> list[int]:
        """The indexes of the best texts."""
        scores: dict[int, float] = defaultdict(float)
        for word in _split_bm25_words(question):
            matches = self._counts.get(word, [])
            rarity = math.log(1 + (len(self._lengths) - len(matches) + 0.5) / (len(matches) + 0.5))
            for text_index, count in matches:
                length_factor = 1 - BM25_B + BM25_B * self._lengths[text_index] / self._mean_length
                scores[text_index] += rarity * count * (BM25_K1 + 1) / (count + BM25_K1 * length_factor)
        return heapq.nsmallest(MAX_RANK, scores, key=lambda text_index: (-scores[text_index], text_index))


def _split_bm25_words(text: str) -> list[str]:
    words = list[str]()
    for word in _BM25_WORD.findall(text.lower()):
        if re.match(rf"[{_UNSPACED}]", word) and len(word) > 1:
            words += (word[index : index + 2] for index in range(len(word) - 1))
        else:
            words.append(word)
    return words


def _score_groups(results: Sequence[_CaseResult]) -> Iterator[RecallScore]:
    groups = dict[tuple[str, str], list[_CaseResult]]()
    for result in results:
        for part in dict.fromkeys(("", result.case.part)):
            groups.setdefault((result.case.group, part), []).append(result)
    for group, part in sorted(groups):
        in_group = groups[group, part]
        yield RecallScore(
            f"{group}: {part}" if part else group,
            len(in_group),
            _compute_recall([result.rank for result in in_group]),
            _compute_recall([result.bm25_rank for result in in_group]),
        )


def _compute_recall(ranks: Sequence[int | None]) -> Recall:
    shares = [sum(rank is not None and rank < limit for rank in ranks) / len(ranks) for limit in (1, 5, 10)]
    return Recall(*shares)


def _describe_conditions() -> tuple[tuple[str, str], ...]:
    return (
        ("query", "the question as it stands"),
        ("conversations", "a message is a text, its speaker's name in front; any piece of evidence counts"),
        ("paragraphs", f"at most {MAX_QUESTIONS} questions a language, spread evenly"),
        (
            "BM25",
            f"k1 {BM25_K1}, b {BM25_B}, words as they stand; pairs of characters where there are no blanks",
        ),
        ("load", machine.describe_load()),
    )
