import asyncio
import io
import json
import os
from pathlib import Path

import pytest

from tests.support import hostile_work as hostile
from tools.sandbox.child import serve
from tools.sandbox.process import Limits, Stopped, run_apart


def children() -> set[str]:
    """The processes this one has started and not reaped."""
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


async def test_work_apart_gets_body_and_arguments_and_nothing_else():
    answer = await run_apart(hostile.echo, b"text" * 100_000, word="hé", number=3)
    assert answer == {
        "body": "text" * 100_000,
        "arguments": {"word": "hé", "number": 3},
        "environment": answer["environment"],
        "site": False,
    }
    assert set(answer["environment"]) <= {"LC_CTYPE"}  # which Python sets by itself


@pytest.mark.parametrize(
    ("work", "limits", "complaint"),
    [
        (hostile.spin, Limits(seconds=20, processor=1), "1 seconds of the processor"),
        (hostile.spin, Limits(seconds=0.3), "longer than 0.3 seconds"),
        (hostile.sleep, Limits(seconds=0.3), "longer than 0.3 seconds"),
        (hostile.swell, Limits(memory=256 * 1024 * 1024), "MemoryError"),
        (hostile.babble, Limits(), "longer than 1048576 bytes"),
        (hostile.crash, Limits(), "without an answer"),
        (hostile.stumble, Limits(), "ValueError: cannot read b''"),
    ],
)
async def test_work_that_misbehaves_is_stopped_and_nothing_of_it_stays(work, limits, complaint):
    before = children()
    with pytest.raises(Stopped, match=complaint):
        await run_apart(work, limits=limits)
    assert children() <= before


async def test_work_apart_writes_no_files(tmp_path):
    with pytest.raises(Stopped, match="File too large"):
        await run_apart(hostile.write, path=str(tmp_path / "file"))


async def test_cancelling_kills_the_work_at_once():
    before = children()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(run_apart(hostile.sleep, limits=Limits(seconds=50)))
        while children() <= before:  # noqa: ASYNC110 - the operating system sends no event when a process appears
            await asyncio.sleep(0.01)
        task.cancel()
    assert task.cancelled()
    assert children() <= before


async def test_work_that_ends_before_it_has_read_its_body_is_an_answer_too():
    with pytest.raises(Stopped, match="AttributeError"):
        await run_apart(lambda body: body, b"x" * 5_000_000)


def asked(function: str) -> io.BytesIO:
    head = {
        "limits": {"seconds": 1},
        "path": [],
        "module": "tests.support.hostile_work",
        "function": function,
    }
    return io.BytesIO(json.dumps({**head, "arguments": {}}).encode() + b"\nbody")


def test_the_cell_binds_itself_before_it_works_and_answers_failures_too(monkeypatch):
    monkeypatch.setattr("sys.path", [])
    bound: list[object] = []
    sink = io.BytesIO()
    serve(asked("stumble"), sink, bound.append)
    assert bound == [{"seconds": 1}]
    assert json.loads(sink.getvalue()) == {"error": "ValueError: cannot read b'body'"}
    sink = io.BytesIO()
    serve(asked("echo"), sink, bound.append)
    assert json.loads(sink.getvalue())["result"]["body"] == "body"
