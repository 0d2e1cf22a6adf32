"""An MCP server in one file that behaves well or badly, without the SDK.

Run as `python mcp_stdio_server.py [behavior]`: `behavior` is what it does at the start; what it does in a
call is the tool's name.
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
READ_ONLY_HINTS = {"readOnlyHint": True}
ANY_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}

TOOLS: dict[str, dict[str, Any]] = {
    name: {"name": name, "description": f"It will {name}.", "inputSchema": ANY_SCHEMA, "annotations": hints}
    for name, hints in {
        "echo": READ_ONLY_HINTS,
        "die": {"idempotentHint": True},
        "huge": {},
        "endless": {},
        "many": {},
        "answer": READ_ONLY_HINTS,
        "write": READ_ONLY_HINTS,
        "begin": READ_ONLY_HINTS,
        "wait": READ_ONLY_HINTS,
        "cancelled": READ_ONLY_HINTS,
        "garbage": READ_ONLY_HINTS,
        "nonsense": READ_ONLY_HINTS,
        "environment": READ_ONLY_HINTS,
        "process": READ_ONLY_HINTS,
        "pictures": READ_ONLY_HINTS,
        "structured": READ_ONLY_HINTS,
        "fail": READ_ONLY_HINTS,
        "refuse": READ_ONLY_HINTS,
        "grow": READ_ONLY_HINTS,
        "flood": READ_ONLY_HINTS,
        "work": READ_ONLY_HINTS,
    }.items()
}

cancelled_ids: list[int] = []


def send_message(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text_result(text: str, **more: object) -> dict[str, object]:
    return {"content": [{"type": "text", "text": text}], **more}


def die(_: dict[str, str]) -> dict[str, object]:
    os._exit(3)


def grow(_: dict[str, str]) -> dict[str, object]:
    TOOLS["grown"] = {"name": "grown", "inputSchema": ANY_SCHEMA}
    send_message(method="notifications/tools/list_changed")
    return text_result("grown")


def garbage(_: dict[str, str]) -> dict[str, object]:
    for _line in range(120):
        sys.stdout.write("no message at all {\n")
    return text_result("garbage was written")


def write(arguments: dict[str, str]) -> dict[str, object]:
    sys.stdout.write(arguments["text"] + "\n")
    return text_result("written")


def endless(_: dict[str, str]) -> dict[str, object]:
    sys.stdout.write(
        '{"result": {"content": [], "id": 5, "pad": "' + "x" * 4_300_000 + '"}, "jsonrpc": "2.0"}\n'
    )
    sys.stdout.flush()
    return text_result("never heard")


def flood(_: dict[str, str]) -> dict[str, object]:
    for number in range(3000):
        send_message(method="notifications/message", params={"level": "info", "data": number})
    return text_result("flooded")


def work(message: dict[str, Any]) -> None:
    """Report progress, and answer unless the tool is `begin`."""
    token = message["params"]["_meta"]["progressToken"]
    for number, words in ((1, "searching"), (2.5, "loading with sesame-4711"), (10, None)):
        params = {"progressToken": token, "progress": number, "total": 10, "message": words}
        send_message(method="notifications/progress", params=params)
    if message["params"]["name"] == "work":
        send_message(id=message["id"], result=text_result("worked"))


def environment(_: dict[str, str]) -> dict[str, object]:
    variables = dict(os.environ)  # noqa: TID251 not a part of the gateway
    home_files = [str(path) for path in Path(variables["HOME"]).iterdir()]
    return text_result(json.dumps({**variables, "cwd": str(Path.cwd()), "home": home_files}))


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


HANDLERS: dict[str, Callable[[dict[str, str]], dict[str, object]]] = {
    "echo": lambda arguments: text_result(arguments.get("text", "")),
    "die": die,
    "huge": lambda _: text_result("x" * 4_300_000),
    "endless": endless,
    "answer": lambda arguments: json.loads(arguments["text"]),
    "write": write,
    "many": lambda _: {"content": [{"type": "text", "text": ""}] * 20_000},
    "cancelled": lambda _: text_result(json.dumps(cancelled_ids)),
    "garbage": garbage,
    "nonsense": lambda _: {"content": "not a list"},
    "environment": environment,
    "process": lambda _: text_result(str(os.getpid())),
    "pictures": pictures,
    "structured": lambda _: {"content": [], "structuredContent": {"degrees": 21}},
    "fail": lambda _: text_result("It is out of order.", isError=True),
    "grow": grow,
    "flood": flood,
}


def list_tools(cursor: str | None, behavior: str) -> dict[str, object]:
    names = sorted(TOOLS)
    start = int(cursor or 0)
    page: dict[str, object] = {"tools": [TOOLS[name] for name in names[start : start + 10]]}
    if behavior == "cyclic":
        page["nextCursor"] = "0"
    elif start + 10 < len(names):
        page["nextCursor"] = str(start + 10)
    return page


def initialize(behavior: str) -> dict[str, object]:
    info = {"name": "crooked", "version": "1"}
    capabilities: dict[str, object] = {"tools": {"listChanged": True}}
    if behavior == "reading room":
        capabilities = {"resources": {}}
    elif behavior in {"library", "refusing library", "empty library", "own reader"}:
        capabilities |= {"resources": {}, "prompts": {}}
    return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}


def list_shelf(method: str, cursor: str | None) -> dict[str, object] | None:
    """A list of resources, templates or prompts; None: it is none of them."""
    match method:
        case "resources/list" if cursor is None:
            notes = {"uri": "memo://notes", "name": "notes", "mimeType": "text/plain"}
            notes["description"] = "All\nnotes."
            return {"resources": [notes], "nextCursor": "2"}
        case "resources/list":
            return {"resources": [{"uri": f"memo://{number}", "name": f"{number}"} for number in range(250)]}
        case "resources/templates/list":
            return {"resourceTemplates": [{"uriTemplate": "memo://{day}", "name": "day", "title": "A day"}]}
        case "prompts/list":
            arguments = [{"name": "topic", "required": True}, {"name": "style"}]
            return {"prompts": [{"name": "review", "description": "Review it.", "arguments": arguments}]}
    return None


def read_shelf(method: str, params: dict[str, Any]) -> dict[str, object] | None:
    """A resource or a prompt; None: there is none of this name."""
    match method, params:
        case "resources/read", {"uri": "memo://notes"}:
            text = {"uri": "memo://notes", "text": "Buy milk."}
            picture = {"uri": "memo://p", "mimeType": "image/png", "blob": PNG}
            return {"contents": [text, picture, {"uri": "memo://x", "blob": "AAAA"}]}
        case "prompts/get", {"name": "review", "arguments": {"topic": topic}}:
            content = {"type": "text", "text": f"Review {topic}."}
            return {"messages": [{"role": "user", "content": content}]}
    return None


def use_library(method: str, message: dict[str, Any], behavior: str) -> None:
    params = message.get("params") or {}
    if behavior == "empty library" and method.endswith("list"):
        result: dict[str, object] | None = {"resources": [], "resourceTemplates": [], "prompts": []}
    elif behavior == "refusing library":
        result = None
    else:
        result = list_shelf(method, params.get("cursor")) or read_shelf(method, params)
    if result is None:
        send_message(id=message["id"], error={"code": -32002, "message": "There is no such thing."})
    else:
        send_message(id=message["id"], result=result)


def handle_message(message: dict[str, Any], behavior: str) -> None:
    params = message.get("params") or {}
    match message.get("method"):
        case "initialize":
            send_message(id=message["id"], result=initialize(behavior))
        case str(method) if method.startswith(("resources/", "prompts/")):
            use_library(method, message, behavior)
        case "tools/list" if behavior == "reading room":
            send_message(id=message["id"], error={"code": -32601, "message": "Method not found"})
        case "tools/list":
            send_message(id=message["id"], result=list_tools(params.get("cursor"), behavior))
        case "tools/call" if params["name"] in {"begin", "work"}:
            work(message)
        case "tools/call" if params["name"] in HANDLERS:
            send_message(id=message["id"], result=HANDLERS[params["name"]](params.get("arguments") or {}))
        case "tools/call" if params["name"] == "refuse":
            send_message(id=message["id"], error={"code": -32000, "message": "I would rather not."})
        case "notifications/cancelled":
            cancelled_ids.append(params["requestId"])
        case "server/discover":
            send_message(id=message["id"], error={"code": -32601, "message": "Method not found"})


def start_behavior(behavior: str, *more: str) -> None:
    match behavior:
        case "empty":
            TOOLS.clear()
            sys.stderr.write("KEY is missing\n")
            sys.stderr.flush()
        case "own reader":  # a library with a tool that is called as the gateway's own would be
            TOOLS["readResource"] = {"name": "readResource", "inputSchema": ANY_SCHEMA}
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


def main(behavior: str = "well", *more: str) -> None:
    start_behavior(behavior, *more)
    for line in sys.stdin:
        handle_message(json.loads(line), behavior)
    while behavior == "stubborn":
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
