"""`bench recall`: evidence among the first found, in conversations and paragraphs, with BM25 beside it."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bot.bench.policies.recall import RecallScore, run_recall
from bot.cli.main import cli
from bot.errors import QuestionRefused

FIXTURES = Path(__file__).parents[2] / "fixtures"
MESSAGES = [
    ("Ann", "Good morning, did you sleep well?"),
    ("Ben", "My sister keeps two parrots in Lisbon."),
    ("Ann", "How lovely, what are they called?"),
    ("Ben", "Coco and Rio."),
    ("Ann", "I painted the shed green."),
]
QUESTIONS = [
    ("Where does the sister keep parrots?", ["D1:1", "D1:9"], 4),
    ("When was the shed painted?", ["D1:4"], 2),
    ("What is a zeppelin?", ["D1:0"], 4),
    ("Who fell silent?", ["D9:9"], 4),
]
PARAGRAPHS = ["สมชายเก็บกุญแจไว้ในลิ้นชักสีฟ้า", "เรือออกจากท่าตอนเที่ยงวัน", "ตลาดเปิดทุกวันเสาร์"]


def write(path: Path, data: Any) -> None:
    path.write_bytes(gzip.compress(json.dumps(data).encode()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    messages = [
        {"id": f"D1:{number}", "at": "1:56 pm on 8 May, 2023", "speaker": speaker, "text": text}
        for number, (speaker, text) in enumerate(MESSAGES)
    ]
    questions = [
        {"question": question, "answer": "", "evidence": evidence, "category": category}
        for question, evidence, category in QUESTIONS
    ]
    write(tmp_path / "conversations.json.gz", [{"sample": "x", "messages": messages, "questions": questions}])
    rows = [{"question": "กุญแจอยู่ในลิ้นชักไหน", "paragraph": 0}, {"question": "เรือออกเมื่อไหร่", "paragraph": 1}]
    write(tmp_path / "paragraphs.th.json.gz", {"language": "th", "paragraphs": PARAGRAPHS, "questions": rows})
    return tmp_path


def test_each_kind_of_question_has_its_share_and_one_without_evidence_is_left_out(folder: Path):
    scores = {score.group: score for score in run_recall(folder).scores}
    assert {group: score.questions for group, score in scores.items()} == {
        "conversations": 3,
        "conversations: one piece": 2,
        "conversations: time": 1,
        "paragraphs th": 2,
    }

    def list_shares(score: RecallScore) -> list[float]:
        return [round(share, 2) for share in (score.found.at_1, score.found.at_10)]

    assert list_shares(scores["conversations: time"]) == [1.0, 1.0]
    assert list_shares(scores["conversations: one piece"]) == [0.5, 0.5]
    assert scores["paragraphs th"].bm25.at_1 == 1.0


def test_thai_paragraphs_are_found_as_well_as_by_pairs_of_characters(tmp_path: Path):
    lines = (FIXTURES / "recall" / "thai.tsv").read_text(encoding="utf-8").splitlines()
    paragraphs, questions = zip(*(line.split("\t") for line in lines), strict=True)
    rows = [{"question": question, "paragraph": number} for number, question in enumerate(questions)]
    data = {"language": "th", "paragraphs": paragraphs, "questions": rows}
    write(tmp_path / "paragraphs.th.json.gz", data)
    [score] = run_recall(tmp_path).scores
    assert score.questions == 40
    assert score.found.at_1 >= max(0.8, score.bm25.at_1 - 0.01)


def test_the_figures_are_a_table_or_json(folder: Path):
    shown = CliRunner().invoke(cli, ["bench", "recall", "--data", str(folder)])
    assert "BM25" in shown.stdout
    assert "paragraphs th" in shown.stdout
    report = json.loads(CliRunner().invoke(cli, ["bench", "recall", "--data", str(folder), "--json"]).stdout)
    assert report["scores"][0]["group"] == "conversations"


def test_a_folder_without_data_and_a_broken_file_are_refused_by_name(tmp_path: Path):
    with pytest.raises(QuestionRefused, match=str(tmp_path)):
        run_recall(tmp_path)
    (tmp_path / "conversations.json.gz").write_bytes(b"\x1f\x8bbroken")
    refused = CliRunner().invoke(cli, ["bench", "recall", "--data", str(tmp_path)])
    assert refused.exit_code == 1
    assert "conversations.json.gz" in refused.stderr
