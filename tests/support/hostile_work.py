"""Functions that misbehave; the tests run them in the sandbox."""

import os
import sys
import time
from typing import Any


def echo(body: bytes, **arguments: Any) -> Any:
    environment = dict(os.environ)  # noqa: TID251 - that there is none is what is tested
    return {
        "body": body.decode(),
        "arguments": arguments,
        "environment": environment,
        "site": "site" in sys.modules,
    }


def spin(body: bytes) -> None:
    while True:
        pass


def sleep(body: bytes, marker: str = "") -> None:
    time.sleep(3600)


def swell(body: bytes) -> int:
    return len([bytearray(64 * 1024 * 1024) for _ in range(64)])


def babble(body: bytes) -> str:
    return "x" * 10_000_000


def crash(body: bytes) -> None:
    os.abort()


def stumble(body: bytes) -> None:
    raise ValueError(f"cannot read {body!r}")


def write(body: bytes, path: str) -> None:
    with open(path, "wb") as file:  # noqa: PTH123 - the shortest way to break the rule
        file.write(b"x")
