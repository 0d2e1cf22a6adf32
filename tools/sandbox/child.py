"""The child process of the sandbox: takes one call from standard input, limits itself, answers with JSON.

Started as a script by tools/sandbox/process.py, without site packages and environment, so that it starts in
some 10 ms; it imports nothing of the project until its limits hold.
"""

import importlib
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO


def confine(limits: Mapping[str, int]) -> None:
    """Limit this process.

    `processor`: seconds of processor time; `memory`: bytes of address space; `seconds`: wall time.
    """
    os.nice(10)  # answers come first
    signal.alarm(limits["seconds"])  # ends this process also when the gateway is gone
    _set_limit(resource.RLIMIT_CPU, limits["processor"])
    if sys.platform != "darwin":  # macOS refuses every limit of address space
        _set_limit(resource.RLIMIT_AS, limits["memory"])
    _set_limit(resource.RLIMIT_FSIZE, 0)
    _set_limit(resource.RLIMIT_CORE, 0)


def _set_limit(resource_kind: int, max_value: int) -> None:
    _, hard = resource.getrlimit(resource_kind)
    soft = max_value
    if hard != resource.RLIM_INFINITY:
        soft = min(max_value, hard)
    resource.setrlimit(resource_kind, (soft, hard))


def serve_call(
    source: BinaryIO, sink: BinaryIO, confine: Callable[[Mapping[str, int]], None] = confine
) -> None:
    """Answer one call: a JSON line (limits, path, module, function, arguments), then the body to the end."""
    request = json.loads(source.readline())
    confine(request["limits"])
    sys.path[:] = request["path"]
    answer: dict[str, Any]
    try:
        function = getattr(importlib.import_module(request["module"]), request["function"])
        answer = {"result": function(source.read(), **request["arguments"])}
    except Exception as error:  # noqa: BLE001 - every failure is an answer; the caller decides what it means
        answer = {"error": f"{type(error).__name__}: {error}"[:500]}
    sink.write(json.dumps(answer).encode())
    sink.flush()


if __name__ == "__main__":
    serve_call(sys.stdin.buffer, sys.stdout.buffer)
