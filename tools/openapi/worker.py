"""The work on a document that is done in a killable process: list its operations, make routes of those
picked.

Both functions take the bytes and answer in JSON; what is wrong with the document is an answer, not a failure.
"""

from collections import Counter
from typing import Any

from tools.openapi.loader import DocumentUnreadable, load_document
from tools.openapi.names import to_tool_name
from tools.openapi.operations import build_route
from tools.openapi.outline import MAX_OPERATIONS, OpenApiOperation, Outline
from tools.safety.injection import neutralize

MAX_SUMMARY_CHARS = 160  # characters
MAX_PROBLEMS = 20


def outline_document(body: bytes, base: str) -> dict[str, Any]:
    """Title, version, operations, hosts, needs and problems of a document; or `unreadable`."""
    try:
        there = Outline(load_document(body), base)
        operations = there.list_operations()
    except DocumentUnreadable as why:
        return {"unreadable": str(why)}
    problems = [*_find_problems(operations), *there.list_unresolved_paths()]
    listed = []
    hosts = {}
    for operation in operations:
        try:
            host = there.operation_host(operation)
        except DocumentUnreadable as why:
            problems.append(f"{operation.key}: {why}")
            continue
        hosts[host] = True
        listed.append({**_summarize_operation(operation), "host": host})
    return {
        "title": neutralize(there.title())[:MAX_SUMMARY_CHARS],
        "version": str(there.document["openapi"]),
        "operations": listed,
        "hosts": list(hosts),
        "needs": there.list_auth_needs(),
        "problems": problems[:MAX_PROBLEMS],
    }


def _summarize_operation(operation: OpenApiOperation) -> dict[str, str]:
    words = operation.written.get("summary") or operation.written.get("description") or ""
    return {
        "operation": operation.key,
        "method": operation.method,
        "path": operation.path,
        "name": to_tool_name(operation.key) or to_tool_name(operation.method_and_path),
        "summary": neutralize(str(words))[:MAX_SUMMARY_CHARS],
    }


def _find_problems(operations: list[OpenApiOperation]) -> list[str]:
    """What is wrong with the whole of it."""
    counted = Counter(operation.display_name for operation in operations)
    problems = [
        f"{key} is the name of {many} operations; none can be picked by it"
        for key, many in counted.items()
        if many > 1
    ]
    if not operations:
        problems.append("no operation can be called: none is a GET, HEAD, POST, PUT, PATCH or DELETE")
    if len(operations) == MAX_OPERATIONS:
        problems.append(f"it has more than {MAX_OPERATIONS} operations; the others are not listed")
    return problems


def build_picked_routes(body: bytes, base: str, picked: list[str], prefix: str) -> dict[str, Any]:
    """The routes to the operations picked, by key, place or name, and why others cannot be used; or
    `unreadable`.
    """
    try:
        there = Outline(load_document(body), base)
        operations = there.list_operations()
        found = [_pick_operation(operations, each) for each in picked]
    except DocumentUnreadable as why:
        return {"unreadable": str(why)}
    made: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    for operation in found:
        try:
            made.append(build_route(there, operation, prefix).as_json())
        except DocumentUnreadable as why:
            left_out[operation.key] = f"The operation {operation.key} cannot be used: {why}"
    return {"routes": made, "left_out": left_out}


def _pick_operation(operations: list[OpenApiOperation], picked_name: str) -> OpenApiOperation:
    found = [each for each in operations if picked_name.strip() in (each.key, each.method_and_path)]
    found = found or [
        each
        for each in operations
        if picked_name.strip().lower() in (each.method_and_path.lower(), to_tool_name(each.key))
    ]
    found = found or [each for each in operations if picked_name.strip() == each.display_name]
    if not found:
        known = ", ".join(each.key for each in operations[:20])
        raise DocumentUnreadable(f"there is no operation {picked_name[:80]!r} in it; it has {known}"[:600])
    if len(found) > 1:
        places = " and ".join(each.method_and_path for each in found[:4])
        raise DocumentUnreadable(f"{picked_name[:80]!r} may be {places}; pick one by its method and path")
    return found[0]
