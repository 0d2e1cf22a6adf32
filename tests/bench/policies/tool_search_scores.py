"""`bench tools`: of many registered tools, how often the needed one is in the prompt or found by a search.

Builds the report; prints nothing. Scores the choice and the search themselves; no model is called.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import thread_time

from bot.agent import history
from bot.agent.tool_search import MAX_FOUND_TOOLS, SearchableTools, pick_tools
from bot.bench.harness import machine
from bot.bench.policies.cases import PolicyCase
from bot.bench.policies.tool_search import (
    PROMPT_BUDGET,
    ToolPool,
    ToolSearchOptions,
    list_cases,
    list_files,
    list_needed,
    read_descriptions,
)
from bot.tables import Line, TextTable
from tests.bench.harness.statistics import median, percentile

ALL_SOURCES = "together"
MIN_REACHED_SHARE = 0.95

PrintLine = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ToolSearchScore:
    """How often the needed tool of one source's cases is reached, or of a whole set: shares, 0 to 1.

    `offered`: it is in the prompt of a conversation that begins with the message; `found`: it is among the
    first five search results; `first`: it is the first; `reached`: offered or found.
    """

    judged: str
    source: str
    cases: int
    offered: float
    first: float
    found: float
    reached: float


@dataclass(frozen=True, slots=True)
class SearchTimes:
    """Milliseconds of processor time: of an index, built once a set of tools, and of a search.

    `longest` is the 99th percentile. `tokens` is the median estimate of what the tools of a prompt take;
    `result_tokens` and `longest_result_tokens` of what a search adds to it.
    """

    index: float
    search: float
    longest: float
    tokens: float
    result_tokens: float
    longest_result_tokens: float


@dataclass(frozen=True, slots=True)
class ToolSearchReport:
    """All figures of a run; `told` are the scores."""

    told: tuple[ToolSearchScore, ...]
    pace: SearchTimes
    conditions: tuple[tuple[str, str], ...]

    @property
    def has_passed(self) -> bool:
        """Whether every set as a whole reaches MIN_REACHED_SHARE."""
        return all(score.reached >= MIN_REACHED_SHARE for score in self.told if score.source == ALL_SOURCES)


@dataclass(frozen=True, slots=True)
class _CaseResult:
    """One case: where the needed tool was, and what finding it took."""

    source: str
    is_offered: bool
    rank: int | None
    search_seconds: float
    prompt_tokens: int
    result_tokens: int

    @property
    def is_found(self) -> bool:
        return self.rank is not None and self.rank < MAX_FOUND_TOOLS


def run_tool_search(
    options: ToolSearchOptions, print_line: PrintLine = lambda line: None
) -> ToolSearchReport:
    """Score the cases in the folders. Raises QuestionRefused if there are none."""
    paths = list_files(options)
    descriptions = read_descriptions(paths)
    scores = list[ToolSearchScore]()
    all_results = list[_CaseResult]()
    index_seconds = list[float]()
    guessed_count = 0
    tool_pool = ToolPool(options, descriptions)
    for path in paths:
        print_line(f"judging: {path}")
        cases = list(list_cases(path, tool_pool))
        index_seconds += map(_time_index, {id(tool_set): tool_set for _, tool_set in cases}.values())
        results = [_judge_case(case, tool_set) for case, tool_set in cases]
        scores += _score_sources(f"{path.parent.name}/{path.name}", results)
        all_results += results
        guessed_count += sum(not case.needed_tools for case, _ in cases)
    return ToolSearchReport(
        tuple(scores),
        _summarize_times(index_seconds, all_results),
        _describe_conditions(options, len(descriptions), guessed_count),
    )


def _time_index(tool_set: SearchableTools) -> float:
    started_at = thread_time()
    tool_set.tool_index  # noqa: B018 - built here, if it was not before
    return thread_time() - started_at


def _judge_case(case: PolicyCase, tool_set: SearchableTools) -> _CaseResult:
    needed = list_needed(case)
    words = case.search_words or case.text
    started_at = thread_time()
    found_names = [tool.name for tool in tool_set.search(words)]
    search_seconds = thread_time() - started_at
    result_tokens = len(tool_set.find(words)) // history.BYTES_PER_TOKEN
    names = pick_tools(tool_set, [case.text], (), PROMPT_BUDGET)
    tokens = sum(tool_set.prompt_chars[name] for name in names) // history.BYTES_PER_TOKEN
    rank = next((number for number, name in enumerate(found_names) if name in needed), None)
    is_offered = not needed.isdisjoint(names)
    return _CaseResult(case.source, is_offered, rank, search_seconds, tokens, result_tokens)


def _score_sources(label: str, results: Sequence[_CaseResult]) -> Iterator[ToolSearchScore]:
    sources = list(dict.fromkeys(case.source for case in results))
    for source in (*sources, ALL_SOURCES):
        in_source = [case for case in results if source in (case.source, ALL_SOURCES)]
        yield ToolSearchScore(
            label,
            source,
            len(in_source),
            offered=_share_of_hits([case.is_offered for case in in_source]),
            first=_share_of_hits([case.rank == 0 for case in in_source]),
            found=_share_of_hits([case.is_found for case in in_source]),
            reached=_share_of_hits([case.is_offered or case.is_found for case in in_source]),
        )


def _share_of_hits(hits: Sequence[bool]) -> float:
    if hits:
        return sum(hits) / len(hits)
    return 1.0


def _summarize_times(index_seconds: Sequence[float], results: Sequence[_CaseResult]) -> SearchTimes:
    searches = [1e3 * case.search_seconds for case in results]
    return SearchTimes(
        median([1e3 * index_second for index_second in index_seconds]) or 0.0,
        median(searches) or 0.0,
        percentile(searches, 0.99) or 0.0,
        median([float(case.prompt_tokens) for case in results]) or 0.0,
        median([float(case.result_tokens) for case in results]) or 0.0,
        max((float(case.result_tokens) for case in results), default=0.0),
    )


def _describe_conditions(
    options: ToolSearchOptions, pool_size: int, guessed_count: int
) -> tuple[tuple[str, str], ...]:
    return (
        (
            "registered",
            f"{min(options.registered_tools, pool_size)} tools a case: its own, "
            f"and others drawn from {pool_size}, in every run the same",
        ),
        ("beside them", "the gateway's own tools, which stand in every prompt; a case may need one of those"),
        (
            "in the prompt",
            f"at most {PROMPT_BUDGET} tokens; a conversation that begins with the message of the case",
        ),
        (
            "found",
            "searched with the words of the case; where it has none, with the person's message as it is",
        ),
        (
            "needed",
            f"as the case says; {guessed_count} do not, and need the one of their own tools that fits best",
        ),
        ("load", machine.describe_load()),
    )


def format_lines(report: ToolSearchReport) -> Iterator[Line]:
    """A table of the figures, and below it the conditions."""
    head = ("needed tool, by source", "set", "cases", "in the prompt", "found first", "among five", "either")
    rows = [
        (
            score.source,
            score.judged,
            str(score.cases),
            *(f"{100 * share:.1f} %" for share in _score_shares(score)),
        )
        for score in report.told
    ]
    yield TextTable("", head, rows)
    yield ""
    pace = report.pace
    yield (
        f"index: {pace.index:.0f} ms of processor time, once a set of tools; "
        f"in the prompt: {pace.tokens:.0f} tokens"
    )
    yield (
        f"search: {pace.search:.1f} ms of processor time, 99 of 100 within {pace.longest:.1f} ms; "
        f"its result: {pace.result_tokens:.0f} tokens, {pace.longest_result_tokens:.0f} at most"
    )
    yield ""
    for name, text in report.conditions:
        yield f"{name}: {text}"


def _score_shares(score: ToolSearchScore) -> tuple[float, ...]:
    return score.offered, score.first, score.found, score.reached
