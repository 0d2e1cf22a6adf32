"""What typed reads gain: calibration, what is stored, and the three uses read at a simulated endpoint."""

import gzip
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bot.agent.text_search import find_passages
from bot.bench.endpoint.run import EndpointAddress
from bot.bench.policies import recall, thinking, tool_search
from bot.bench.policies.typed_reads import ReadCase, measure_reads
from bot.cli.main import cli
from bot.errors import QuestionRefused, ServerAway
from bot.http_server import serve
from bot.llm.read_gains import ReadGain, ReadUse, load_gains
from bot.sim.vllm.typed_reads import TypedQuestion
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.many_tools import make_many_tools
from tests.support.terminal_text import lay_out
from tests.support.thinking_cases import write_cases

SIM = EndpointAddress("sim")
SENTENCES = (
    "A lantern hung over grandfather's boat all winter.",
    "Nobody had lit the lantern since the bakery closed.",
    "Seven moths slept inside the green lantern yesterday.",
    "She bought oil, two wicks and a lantern at noon.",
    "Thunder broke his lantern against a stone wall.",
    "Our teacher drew a lantern, three bells and some rope.",
    "Children carried one lantern through muddy fields.",
    "The lantern of Oslo burns whale fat.",
)


async def measure(
    use: ReadUse, cases: Iterable[ReadCase], folder: Path, endpoint: ScriptedEndpoint
) -> tuple[str, ReadGain | None]:
    """What is printed, and stored, of an endpoint that is served as a real one."""
    async with serve(endpoint.app) as url:
        lines = await measure_reads(EndpointAddress(f"{url}/v1"), use, cases, folder)
    return lay_out(lines), load_gains(folder).get(use)


@pytest.fixture
def recall_folder(tmp_path: Path) -> Path:
    """Passages of which the one that words put last has the answer."""
    last = find_passages("lantern", (), 20, SENTENCES)[-1].text_index
    row = {"question": "lantern", "paragraph": last}
    data = {"language": "en", "paragraphs": SENTENCES, "questions": [row]}
    (tmp_path / "paragraphs.en.json.gz").write_bytes(gzip.compress(json.dumps(data).encode()))
    return tmp_path


async def test_passages_are_read_together_and_a_gain_is_counted(recall_folder: Path, tmp_path: Path) -> None:
    def judge(question: TypedQuestion) -> tuple[float, float]:
        return (9, 1) if question.name == str(len(SENTENCES)) else (1, 9)

    endpoint = ScriptedEndpoint(judge=judge)
    text, gain = await measure("recall", recall.list_read_cases(recall_folder), tmp_path / "out", endpoint)
    assert gain == ReadGain(endpoint.model, 1, gained=1, lost=0)
    assert "right of 1: 0 by words, 1 with reads (+1 −0)" in text
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "0% to 20% 7 0%" in rows
    assert "80% to 100% 1 100%" in rows
    assert len(endpoint.typed_questions) == len(SENTENCES)
    assert "it counts from 2" in text


async def test_tools_that_words_do_not_tell_apart_are_read(tmp_path: Path) -> None:
    schemas = {
        tool.name: {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
        for tool in make_many_tools()
    }
    row = {"text": "Please approve it", "tools": ["get_rota"], "needs_tools": True, "source": "company"}
    (tmp_path / "tools.json").write_text(json.dumps(schemas), encoding="utf-8")
    (tmp_path / "cases.jsonl").write_text(json.dumps(row | {"needed": "approve_voucher"}), encoding="utf-8")
    options = tool_search.ToolSearchOptions((tmp_path,))
    endpoint = ScriptedEndpoint(
        judge=lambda question: [9.0 if name == "approve_voucher" else 0.1 for name in question.options]
    )
    _, gain = await measure("tools", tool_search.list_read_cases(options), tmp_path / "out", endpoint)
    [question] = endpoint.typed_questions
    assert 2 <= len(question.options) <= 20
    assert gain == ReadGain(endpoint.model, 1, gained=1, lost=0)
    assert "The assistant's tools:" in question.state


async def test_cases_in_doubt_are_read_for_heavy_work(tmp_path: Path) -> None:
    write_cases(tmp_path)
    path = tmp_path / "cases.jsonl"
    row = {"text": "Voisitko auttaa minua siinä asiassa?", "tools": ["switch_lamp"], "needs_tools": True}
    in_doubt = json.dumps(row | {"source": "fi", "heavy": True})
    path.write_text(f"{path.read_text()}{in_doubt}\n", encoding="utf-8")
    cases = list(thinking.list_read_cases([tmp_path]))
    assert len(cases) == 1
    _, gain = await measure("thinking", cases, tmp_path / "out", ScriptedEndpoint(judge=lambda _: (99, 1)))
    assert gain == ReadGain("diffusiongemma", 1, gained=1, lost=0)


def test_of_a_simulated_model_nothing_is_stored(recall_folder: Path, tmp_path: Path) -> None:
    options = ["--data", str(recall_folder), "--endpoint", "sim", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(cli, ["bench", "recall", *options])
    assert result.exit_code == 0, result.output
    assert "right of 1: 0 by words" in result.output
    assert "no model ran" in result.output
    assert not (tmp_path / "out").exists()


def test_an_endpoint_that_is_away_is_named_before_the_cases_are_read(tmp_path: Path) -> None:
    (tmp_path / "paragraphs.en.json.gz").write_bytes(b"minutes of work where it is a large file")
    options = ["--data", str(tmp_path), "--endpoint", "http://127.0.0.1:9/v1"]
    result = CliRunner().invoke(cli, ["bench", "recall", *options])
    assert isinstance(result.exception, ServerAway), result.exception


async def test_an_endpoint_without_typed_reads_is_refused_in_words(recall_folder: Path) -> None:
    endpoint = ScriptedEndpoint(replace(ServerProfile(), logprobs=False))
    cases = recall.list_read_cases(recall_folder)
    with pytest.raises(QuestionRefused, match="has no typed reads"):
        await measure_reads(SIM, "recall", cases, None, endpoint)
