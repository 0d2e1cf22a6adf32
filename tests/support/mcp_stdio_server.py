"""An MCP server in one file that behaves well or badly, as its arguments and its tools say. Knows no SDK.

Run as `python crooked.py [how]`; what it does at the start is `how`, what it does in a call is the tool's
name.
"""

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n picture").decode()
READS = {"readOnlyHint": True}
ANY = {"type": "object", "properties": {"text": {"type": "string"}}}

TOOLS: dict[str, dict[str, Any]] = {
    name: {"name": name, "description": f"It will {name}.", "inputSchema": ANY, "annotations": hints}
    for name, hints in {
        "echo": READS,
        "die": {"idempotentHint": True},
        "huge": {},
        "endless": {},
        "many": {},
        "answer": READS,
        "write": READS,
        "wait": READS,
        "cancelled": READS,
        "garbage": READS,
        "nonsense": READS,
        "environment": READS,
        "process": READS,
        "pictures": READS,
        "structured": READS,
        "fail": READS,
        "refuse": READS,
        "grow": READS,
        "flood": READS,
    }.items()
}

cancelled: list[int] = []


def tell(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(said: str, **more: object) -> dict[str, object]:
    return {"content": [{"type": "text", "text": said}], **more}


def die(_: dict[str, str]) -> dict[str, object]:
    os._exit(3)


def grow(_: dict[str, str]) -> dict[str, object]:
    TOOLS["grown"] = {"name": "grown", "inputSchema": ANY}
    tell(method="notifications/tools/list_changed")
    return text("grown")


def garbage(_: dict[str, str]) -> dict[str, object]:
    for _line in range(120):
        sys.stdout.write("no message at all {\n")
    return text("garbage was written")


def write(arguments: dict[str, str]) -> dict[str, object]:
    sys.stdout.write(arguments["text"] + "\n")
    return text("written")


def endless(_: dict[str, str]) -> dict[str, object]:
    sys.stdout.write(
        '{"result": {"content": [], "id": 5, "pad": "' + "x" * 4_300_000 + '"}, "jsonrpc": "2.0"}\n'
    )
    sys.stdout.flush()
    return text("never heard")


def flood(_: dict[str, str]) -> dict[str, object]:
    for number in range(3000):
        tell(method="notifications/message", params={"level": "info", "data": number})
    return text("flooded")


def environment(_: dict[str, str]) -> dict[str, object]:
    seen = dict(os.environ)  # noqa: TID251 it is no part of the house
    return text(
        json.dumps(
            {**seen, "cwd": str(Path.cwd()), "home": [str(one) for one in Path(seen["HOME"]).iterdir()]}
        )
    )


def pictures(_: dict[str, str]) -> dict[str, object]:
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}
    content = [
        {"type": "text", "text": "a picture"},
        image,
        {**image, "mimeType": "image/tiff"},
        {**image, "data": "AAAAA"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///notes.txt", "text": "from a resource"}},
        {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "AAAA"}},
        {"type": "resource_link", "uri": "file:///b.txt", "name": "b"},
        *[image] * 4,
    ]
    return {"content": content}


DOING: dict[str, Callable[[dict[str, str]], dict[str, object]]] = {
    "echo": lambda arguments: text(arguments.get("text", "")),
    "die": die,
    "huge": lambda _: text("x" * 4_300_000),
    "endless": endless,
    "answer": lambda arguments: json.loads(arguments["text"]),
    "write": write,
    "many": lambda _: {"content": [{"type": "text", "text": ""}] * 20_000},
    "cancelled": lambda _: text(json.dumps(cancelled)),
    "garbage": garbage,
    "nonsense": lambda _: {"content": "not a list"},
    "environment": environment,
    "process": lambda _: text(str(os.getpid())),
    "pictures": pictures,
    "structured": lambda _: {"content": [], "structuredContent": {"degrees": 21}},
    "fail": lambda _: text("It is out of order.", isError=True),
    "grow": grow,
    "flood": flood,
}


def list_tools(cursor: str | None, how: str) -> dict[str, object]:
    names = sorted(TOOLS)
    at = int(cursor or 0)
    page: dict[str, object] = {"tools": [TOOLS[name] for name in names[at : at + 10]]}
    if how == "cyclic":
        page["nextCursor"] = "0"
    elif at + 10 < len(names):
        page["nextCursor"] = str(at + 10)
    return page


def initialize() -> dict[str, object]:
    info = {"name": "crooked", "version": "1"}
    return {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": info,
    }


def hear(message: dict[str, Any], how: str) -> None:
    params = message.get("params") or {}
    match message.get("method"):
        case "initialize":
            tell(id=message["id"], result=initialize())
        case "tools/list":
            tell(id=message["id"], result=list_tools(params.get("cursor"), how))
        case "tools/call" if params["name"] in DOING:
            tell(id=message["id"], result=DOING[params["name"]](params.get("arguments") or {}))
        case "tools/call" if params["name"] == "refuse":
            tell(id=message["id"], error={"code": -32000, "message": "I would rather not."})
        case "notifications/cancelled":
            cancelled.append(params["requestId"])
        case "server/discover":
            tell(id=message["id"], error={"code": -32601, "message": "Method not found"})


def begin(how: str, *more: str) -> None:
    match how:
        case "hang":
            signal.pause()
        case "noise":
            while True:
                sys.stdout.write("Loading…\n")
        case "slow":  # until somebody has written to this pipe
            Path(more[0]).read_text()
        case "stubborn":  # neither the end of its input nor a signal ends it, and it has a child
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
            sys.stderr.write(f"pids {os.getpid()} {child.pid}\n")
            sys.stderr.flush()


def main(how: str = "well", *more: str) -> None:
    begin(how, *more)
    for line in sys.stdin:
        hear(json.loads(line), how)
    while how == "stubborn":
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
