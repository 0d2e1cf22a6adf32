"""The inside of a killable process: takes one call from standard input, binds itself to limits, answers with
JSON.

Started as a script by tools/sandbox/process.py, without site packages and environment, so that it is there in
some 10 ms; it imports nothing of the house until its limits hold.
"""

import importlib
import json
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO


def confine(limits: Mapping[str, int]) -> None:
    """Hold this process to `processor` seconds, `memory` bytes of address space and `seconds` of wall time."""
    signal.alarm(limits["seconds"])  # ends it also when the gateway is gone
    _set_limit(resource.RLIMIT_CPU, limits["processor"])
    if sys.platform != "darwin":  # macOS refuses any limit of address space
        _set_limit(resource.RLIMIT_AS, limits["memory"])
    _set_limit(resource.RLIMIT_FSIZE, 0)
    _set_limit(resource.RLIMIT_CORE, 0)


def _set_limit(resource_kind: int, max_value: int) -> None:
    _, hard = resource.getrlimit(resource_kind)
    allowed = max_value if hard == resource.RLIM_INFINITY else min(max_value, hard)
    resource.setrlimit(resource_kind, (allowed, hard))


def serve_call(
    source: BinaryIO, sink: BinaryIO, confine: Callable[[Mapping[str, int]], None] = confine
) -> None:
    """Answer one call: a line of JSON (limits, path, module, function, arguments), then the body up to the
    end.
    """
    asked = json.loads(source.readline())
    confine(asked["limits"])
    sys.path[:] = asked["path"]
    answer: dict[str, Any]
    try:
        function = getattr(importlib.import_module(asked["module"]), asked["function"])
        answer = {"result": function(source.read(), **asked["arguments"])}
    except Exception as error:  # noqa: BLE001 - every failure is an answer; the caller decides what it means
        answer = {"error": f"{type(error).__name__}: {error}"[:500]}
    sink.write(json.dumps(answer).encode())
    sink.flush()


if __name__ == "__main__":
    serve_call(sys.stdin.buffer, sys.stdout.buffer)
