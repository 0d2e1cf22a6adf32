"""`bench recall`: what typed reads are asked of questions that several passages of a chat may answer."""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.agent.text_search import MAX_PASSAGES, TextPassage, find_passages
from bot.bench.harness.gateway_process import BenchFailed
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
CATEGORIES = {1: "several pieces", 2: "time", 3: "inference", 4: "one piece"}


@dataclass(frozen=True, slots=True)
class RecallCase:
    """A question, the indexes of the texts of which one must be found, and the texts.

    These are a conversation, the newest message first, or documents.
    """

    group: str
    part: str
    question: str
    evidence: frozenset[int]
    texts: tuple[str, ...]
    is_conversation: bool


def list_read_cases(folder: Path) -> Iterator[ReadCase]:
    """What is read of the questions that several passages may answer: whether the few best hold evidence."""
    cases = (case for path in list_files(folder) for case in read_cases(path))
    reads = (_build_read_case(case, find_case_passages(case, MAX_READ)) for case in cases)
    return (read for read in reads if read.questions)


def _build_read_case(case: RecallCase, passages: Sequence[TextPassage]) -> ReadCase:
    is_evidence = [passage.text_index in case.evidence for passage in passages]

    def judge(reading: TypedReading) -> ReadOutcome:
        chances = read_passage_chances(reading, len(passages))
        best = order_passages(chances)[:MAX_PASSAGES]
        is_right = any(is_evidence[index] for index in best)
        return ReadOutcome(is_right, list(zip(chances, is_evidence, strict=True)))

    state = describe_passages(case.question, [passage.passage for passage in passages])
    return ReadCase(ask_about_passages(len(passages)), state, any(is_evidence[:MAX_PASSAGES]), judge)


def list_files(folder: Path) -> list[Path]:
    """The files of data in a folder. Raises QuestionRefused if there are none."""
    paths = sorted([*folder.glob("conversations*.json.gz"), *folder.glob("paragraphs.*.json.gz")])
    if not paths:
        raise QuestionRefused(f"No conversations.json.gz or paragraphs.*.json.gz lie in {folder}.")
    return paths


def read_cases(path: Path) -> list[RecallCase]:
    """The cases of a file. Raises BenchFailed, naming it, for an invalid one."""
    try:
        data = json.loads(gzip.decompress(path.read_bytes()))
        if path.name.startswith("conversations"):
            return [case for conversation in data for case in _read_conversation(conversation)]
        return _read_paragraphs(data)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise BenchFailed(f"{path} holds no data for this: {type(error).__name__}: {error}") from error


def _read_conversation(conversation: Mapping[str, Any]) -> Iterator[RecallCase]:
    newest_first = conversation["messages"][::-1]
    texts = tuple(f"{message['speaker']}: {message['text']}" for message in newest_first)
    positions = {message["id"]: index for index, message in enumerate(newest_first)}
    for row in conversation["questions"]:
        evidence = frozenset(positions[name] for name in row["evidence"] if name in positions)
        if evidence:
            part = CATEGORIES.get(row["category"], "other")
            yield RecallCase("conversations", part, row["question"], evidence, texts, is_conversation=True)


def _read_paragraphs(data: Mapping[str, Any]) -> list[RecallCase]:
    texts = tuple(data["paragraphs"])
    step = max(1, len(data["questions"]) // MAX_QUESTIONS)
    rows = data["questions"][::step][:MAX_QUESTIONS]
    group = f"paragraphs {data['language']}"
    return [
        RecallCase(group, "", row["question"], frozenset({row["paragraph"]}), texts, is_conversation=False)
        for row in rows
    ]


def find_case_passages(case: RecallCase, limit: int) -> list[TextPassage]:
    """What a search by words finds of the texts of a case, the best first."""
    messages, documents = (case.texts, ()) if case.is_conversation else ((), case.texts)
    return find_passages(case.question, messages, limit, documents)
