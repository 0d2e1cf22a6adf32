"""The work on a document that runs in the sandbox: list its operations, build routes of those picked.

Both functions take the bytes and answer in JSON; a defect of the document is an answer, not a failure.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any

from tools.openapi.loader import DocumentUnreadable, load_document
from tools.openapi.names import to_tool_name
from tools.openapi.operations import build_route
from tools.openapi.outline import MAX_OPERATIONS, OpenApiOperation, Outline
from tools.openapi.servers import ServerSettings
from tools.safety.injection import neutralize

MAX_SUMMARY_CHARS = 160
MAX_PROBLEMS = 20
MAX_UNUSABLE = 500  # operations that a document keeps with the reason
MAX_NAMED = 3  # operations in one problem


def outline_document(body: bytes, base: str, server: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Operations, hosts, auth needs and problems of a document; or `unreadable`."""
    try:
        outline = Outline(load_document(body), base, ServerSettings(**(server or {})))
        operations = outline.list_operations()
    except DocumentUnreadable as error:
        return {"unreadable": str(error)}
    problems = [*_find_problems(operations), *outline.list_unresolved_paths()]
    unusable = dict(outline.list_uncalled_operations())
    summaries = []
    hosts = {}
    for operation in operations:
        try:
            host = outline.operation_host(operation)
        except DocumentUnreadable as error:
            unusable[operation.key] = str(error)
            continue
        hosts[host] = True
        summaries.append({**_summarize_operation(operation), "host": host})
    return {
        "operations": summaries,
        "hosts": list(hosts),
        "needs": [asdict(need) for need in outline.list_auth_needs()],
        "assumptions": outline.list_assumptions(),
        "problems": [*problems, *_summarize_reasons(unusable)][:MAX_PROBLEMS],
        "unusable": dict(islice(unusable.items(), MAX_UNUSABLE)),
    }


def _summarize_reasons(unusable: Mapping[str, str]) -> Iterator[str]:
    """One sentence a reason, with the operations that it keeps away."""
    operations: dict[str, list[str]] = {}
    for operation, reason in unusable.items():
        operations.setdefault(reason, []).append(operation)
    for reason, names in operations.items():
        more = len(names) - MAX_NAMED
        listed = ", ".join(names[:MAX_NAMED])
        if more > 0:
            listed += f" and {more} more"
        yield f"{listed}: {reason}"


def _summarize_operation(operation: OpenApiOperation) -> dict[str, str]:
    description = operation.written.get("summary") or operation.written.get("description") or ""
    return {
        "operation": operation.key,
        "method": operation.method,
        "path": operation.path,
        "name": to_tool_name(operation.key) or to_tool_name(operation.method_and_path),
        "summary": neutralize(str(description))[:MAX_SUMMARY_CHARS],
    }


def _find_problems(operations: list[OpenApiOperation]) -> list[str]:
    """What is wrong with the document as a whole."""
    counts = Counter(operation.display_name for operation in operations)
    problems = [
        f"{key} is the name of {count} operations; none can be picked by it"
        for key, count in counts.items()
        if count > 1
    ]
    if not operations:
        problems.append("no operation can be called: none is a GET, HEAD, POST, PUT, PATCH or DELETE")
    if len(operations) == MAX_OPERATIONS:
        problems.append(f"it has more than {MAX_OPERATIONS} operations; the others are not listed")
    return problems


def build_picked_routes(
    body: bytes, base: str, picked: list[str], prefix: str, server: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The routes to the operations picked by key, and why others cannot be used; or `unreadable`."""
    try:
        outline = Outline(load_document(body), base, ServerSettings(**(server or {})))
        operations = {operation.key: operation for operation in outline.list_operations()}
    except DocumentUnreadable as error:
        return {"unreadable": str(error)}
    routes: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    for key in dict.fromkeys(picked):
        if key not in operations:
            return {"unreadable": f"there is no operation {key[:80]!r} in it"}
        try:
            routes.append(build_route(outline, operations[key], prefix).as_json())
        except DocumentUnreadable as error:
            left_out[key] = f"The operation {key} cannot be used: {error}"
    return {"routes": routes, "left_out": left_out}
