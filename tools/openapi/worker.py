"""The work on a document that runs in the sandbox: list its operations, build routes of those picked.

Both functions take the bytes and answer in JSON; a defect of the document is an answer, not a failure.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tools.openapi.loader import DocumentUnreadable, load_document
from tools.openapi.names import to_tool_name
from tools.openapi.operations import build_route
from tools.openapi.outline import MAX_OPERATIONS, OpenApiOperation, Outline
from tools.openapi.servers import ServerSettings
from tools.safety.injection import neutralize

MAX_SUMMARY_CHARS = 160
MAX_PROBLEMS = 20


def outline_document(body: bytes, base: str, server: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Title, version, operations, hosts, auth needs and problems of a document; or `unreadable`."""
    try:
        outline = Outline(load_document(body), base, ServerSettings(**(server or {})))
        operations = outline.list_operations()
    except DocumentUnreadable as error:
        return {"unreadable": str(error)}
    problems = [*_find_problems(operations), *outline.list_unresolved_paths()]
    summaries = []
    hosts = {}
    for operation in operations:
        try:
            host = outline.operation_host(operation)
        except DocumentUnreadable as error:
            problems.append(f"{operation.key}: {error}")
            continue
        hosts[host] = True
        summaries.append({**_summarize_operation(operation), "host": host})
    return {
        "title": neutralize(outline.title())[:MAX_SUMMARY_CHARS],
        "version": str(outline.document["openapi"]),
        "operations": summaries,
        "hosts": list(hosts),
        "needs": [asdict(need) for need in outline.list_auth_needs()],
        "assumptions": outline.list_assumptions(),
        "problems": problems[:MAX_PROBLEMS],
    }


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
    """The routes to the operations picked, and why others cannot be used; or `unreadable`.

    Each is picked by key, "METHOD /path" or name.
    """
    try:
        outline = Outline(load_document(body), base, ServerSettings(**(server or {})))
        operations = outline.list_operations()
        picked_operations = [_pick_operation(operations, picked_name) for picked_name in picked]
    except DocumentUnreadable as error:
        return {"unreadable": str(error)}
    routes: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    for operation in picked_operations:
        try:
            routes.append(build_route(outline, operation, prefix).as_json())
        except DocumentUnreadable as error:
            left_out[operation.key] = f"The operation {operation.key} cannot be used: {error}"
    return {"routes": routes, "left_out": left_out}


def _pick_operation(operations: list[OpenApiOperation], picked_name: str) -> OpenApiOperation:
    matches = _match_operations(operations, picked_name.strip())
    if not matches:
        keys = ", ".join(operation.key for operation in operations[:20])
        raise DocumentUnreadable(f"there is no operation {picked_name[:80]!r} in it; it has {keys}"[:600])
    if len(matches) > 1:
        candidates = " and ".join(operation.method_and_path for operation in matches[:4])
        raise DocumentUnreadable(f"{picked_name[:80]!r} may be {candidates}; pick one by its method and path")
    return matches[0]


def _match_operations(operations: list[OpenApiOperation], name: str) -> list[OpenApiOperation]:
    """The operations meant by a name: exact keys first, then any spelling, then a shared operationId."""
    exact = [operation for operation in operations if name in (operation.key, operation.method_and_path)]
    if exact:
        return exact
    similar = [
        operation
        for operation in operations
        if name.lower() in (operation.method_and_path.lower(), to_tool_name(operation.key))
    ]
    if similar:
        return similar
    return [operation for operation in operations if name == operation.display_name]
