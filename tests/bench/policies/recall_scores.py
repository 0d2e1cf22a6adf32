"""`bench recall`: how often the search finds what answers a question; BM25 beside it.

Builds the report; prints nothing. Asks the search by words alone: no model, no database.
"""

import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import thread_time

from bot.bench.harness import machine
from bot.bench.policies.recall import (
    MAX_QUESTIONS,
    RecallCase,
    find_case_passages,
    list_files,
    read_cases,
)
from bot.tables import Line, TextTable
from tests.bench.harness.statistics import median, percentile

MAX_RANK = 10
BM25_K1 = 1.2
BM25_B = 0.75

PrintLine = Callable[[str], None]

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


@dataclass(frozen=True, slots=True)
class RecallReport:
    """All figures of a run; `longest` is the 99th percentile, both are milliseconds of processor time."""

    scores: tuple[RecallScore, ...]
    search: float
    longest: float
    conditions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _CaseResult:
    """The ranks of the first evidence, from 0; None if it is not among the first MAX_RANK."""

    case: RecallCase
    rank: int | None
    bm25_rank: int | None
    seconds: float


def run_recall(folder: Path, print_line: PrintLine = lambda line: None) -> RecallReport:
    """Score the data in a folder.

    Raises QuestionRefused if there is none, BenchFailed, naming the file, for an invalid one.
    """
    results = list[_CaseResult]()
    for path in list_files(folder):
        print_line(f"searching: {path}")
        bm25_indexes: dict[tuple[str, ...], _Bm25] = {}
        for case in read_cases(path):
            if case.texts not in bm25_indexes:
                bm25_indexes[case.texts] = _Bm25(case.texts)
            results.append(_search_case(case, bm25_indexes[case.texts]))
    searches = [1e3 * result.seconds for result in results]
    return RecallReport(
        tuple(_score_groups(results)),
        median(searches) or 0.0,
        percentile(searches, 0.99) or 0.0,
        _describe_conditions(),
    )


def _search_case(case: RecallCase, bm25: "_Bm25") -> _CaseResult:
    started_at = thread_time()
    passages = find_case_passages(case, MAX_RANK)
    seconds = thread_time() - started_at
    text_indexes = [passage.text_index for passage in passages]
    return _CaseResult(
        case,
        _find_rank(text_indexes, case.evidence),
        _find_rank(bm25.rank(case.question), case.evidence),
        seconds,
    )


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


def format_lines(report: RecallReport) -> Iterator[Line]:
    """A table of the figures, and below it the conditions."""
    head = ("evidence found", "questions", "at 1", "at 5", "at 10", "BM25 at 1", "at 5", "at 10")
    rows = [(score.group, str(score.questions), *_format_shares(score)) for score in report.scores]
    yield TextTable("", head, rows)
    yield ""
    yield (
        f"search: {report.search:.1f} ms of processor time, 99 of 100 within {report.longest:.1f} ms, "
        "the texts in memory"
    )
    yield ""
    for name, text in report.conditions:
        yield f"{name}: {text}"


def _format_shares(score: RecallScore) -> list[str]:
    recalls = (score.found, score.bm25)
    return [f"{share:.3f}" for recall in recalls for share in (recall.at_1, recall.at_5, recall.at_10)]
