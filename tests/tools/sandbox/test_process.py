"""Work in the sandbox: what it gets, how it is stopped, and that nothing of it stays."""

import asyncio
import io
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import hostile_work
from tools.sandbox.child import serve_call
from tools.sandbox.process import SandboxLimits, SandboxStopped, run_in_sandbox

PATIENT = SandboxLimits(wall_seconds=300)  # the work is nice, and others may be busy


def child_pids() -> set[str]:
    """The processes this one has started and not reaped."""
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


async def test_the_work_gets_body_and_arguments_and_nothing_else():
    result = await run_in_sandbox(hostile_work.echo, b"text" * 100_000, PATIENT, word="hé", number=3)
    assert result == {
        "body": "text" * 100_000,
        "arguments": {"word": "hé", "number": 3},
        "environment": result["environment"],
        "site": False,
    }
    assert set(result["environment"]) <= {"LC_CTYPE"}  # which Python sets by itself


@pytest.mark.parametrize(
    ("work", "limits", "complaint"),
    [
        (hostile_work.spin, replace(PATIENT, cpu_seconds=1), "1 seconds of the processor"),
        (hostile_work.sleep, SandboxLimits(wall_seconds=0.3), "longer than 0.3 seconds"),
        (hostile_work.swell, replace(PATIENT, memory_bytes=256 * 1024 * 1024), "MemoryError"),
        (hostile_work.babble, PATIENT, "longer than 1048576 bytes"),
        (hostile_work.crash, PATIENT, "without an answer"),
        (hostile_work.stumble, PATIENT, "ValueError: cannot read b''"),
    ],
)
async def test_work_that_misbehaves_is_stopped_and_its_process_is_gone(work, limits, complaint):
    before = child_pids()
    with pytest.raises(SandboxStopped, match=complaint):
        await run_in_sandbox(work, limits=limits)
    assert child_pids() <= before


async def test_the_work_cannot_write_files(tmp_path):
    with pytest.raises(SandboxStopped, match="File too large"):
        await run_in_sandbox(hostile_work.write, limits=PATIENT, path=str(tmp_path / "file"))


async def test_cancelling_kills_the_work_at_once():
    before = child_pids()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(run_in_sandbox(hostile_work.sleep, limits=PATIENT))
        while child_pids() <= before:  # noqa: ASYNC110 - no event says that a process appears
            await asyncio.sleep(0.01)
        task.cancel()
    assert task.cancelled()
    assert child_pids() <= before


async def test_work_that_ends_before_it_has_read_its_body_is_an_answer_too():
    with pytest.raises(SandboxStopped, match="AttributeError"):
        await run_in_sandbox(lambda body: body, b"x" * 5_000_000, PATIENT)


def encode_call(function_name: str) -> io.BytesIO:
    head = {
        "limits": {"seconds": 1},
        "path": [],
        "module": "tests.support.hostile_work",
        "function": function_name,
    }
    return io.BytesIO(json.dumps({**head, "arguments": {}}).encode() + b"\nbody")


def test_the_child_limits_itself_first_and_answers_failures_too(monkeypatch):
    monkeypatch.setattr("sys.path", [])
    applied_limits: list[object] = []
    sink = io.BytesIO()
    serve_call(encode_call("stumble"), sink, applied_limits.append)
    assert applied_limits == [{"seconds": 1}]
    assert json.loads(sink.getvalue()) == {"error": "ValueError: cannot read b'body'"}
    sink = io.BytesIO()
    serve_call(encode_call("echo"), sink, applied_limits.append)
    assert json.loads(sink.getvalue())["result"]["body"] == "body"
