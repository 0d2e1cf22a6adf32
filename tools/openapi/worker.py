"""The work on a document that is done in a killable process: list its operations, make routes of those
picked.

Both functions take the bytes and answer in JSON; what is wrong with the document is an answer, not a failure.
"""

from collections import Counter
from typing import Any

from tools.openapi.loader import Unreadable, load
from tools.openapi.names import tool_name
from tools.openapi.operations import route_of
from tools.openapi.outline import OPERATIONS, Operation, Outline
from tools.safety.injection import harmless

SUMMARY = 160  # characters
PROBLEMS = 20


def outline(body: bytes, base: str) -> dict[str, Any]:
    """Title, version, operations, hosts, needs and problems of a document; or `unreadable`."""
    try:
        there = Outline(load(body), base)
        operations = there.operations()
    except Unreadable as why:
        return {"unreadable": str(why)}
    problems = [*_problems(operations), *there.unfollowed()]
    listed = []
    hosts = {}
    for operation in operations:
        try:
            host = there.host(operation)
        except Unreadable as why:
            problems.append(f"{operation.key}: {why}")
            continue
        hosts[host] = True
        listed.append({**_listed(operation), "host": host})
    return {
        "title": harmless(there.title())[:SUMMARY],
        "version": str(there.document["openapi"]),
        "operations": listed,
        "hosts": list(hosts),
        "needs": there.needs(),
        "problems": problems[:PROBLEMS],
    }


def _listed(operation: Operation) -> dict[str, str]:
    words = operation.written.get("summary") or operation.written.get("description") or ""
    return {
        "operation": operation.key,
        "method": operation.method,
        "path": operation.path,
        "name": tool_name(operation.key) or tool_name(operation.place),
        "summary": harmless(str(words))[:SUMMARY],
    }


def _problems(operations: list[Operation]) -> list[str]:
    """What is wrong with the whole of it."""
    counted = Counter(operation.named for operation in operations)
    problems = [
        f"{key} is the name of {many} operations; none can be picked by it"
        for key, many in counted.items()
        if many > 1
    ]
    if not operations:
        problems.append("no operation can be called: none is a GET, HEAD, POST, PUT, PATCH or DELETE")
    if len(operations) == OPERATIONS:
        problems.append(f"it has more than {OPERATIONS} operations; the others are not listed")
    return problems


def routes(body: bytes, base: str, picked: list[str], prefix: str) -> dict[str, Any]:
    """The routes to the operations picked, by key, place or name, and why others cannot be used; or
    `unreadable`.
    """
    try:
        there = Outline(load(body), base)
        operations = there.operations()
        found = [_pick(operations, each) for each in picked]
    except Unreadable as why:
        return {"unreadable": str(why)}
    made: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    for operation in found:
        try:
            made.append(route_of(there, operation, prefix).as_json())
        except Unreadable as why:
            left_out[operation.key] = f"The operation {operation.key} cannot be used: {why}"
    return {"routes": made, "left_out": left_out}


def _pick(operations: list[Operation], wanted: str) -> Operation:
    found = [each for each in operations if wanted.strip() in (each.key, each.place)]
    found = found or [
        each for each in operations if wanted.strip().lower() in (each.place.lower(), tool_name(each.key))
    ]
    found = found or [each for each in operations if wanted.strip() == each.named]
    if not found:
        known = ", ".join(each.key for each in operations[:20])
        raise Unreadable(f"there is no operation {wanted[:80]!r} in it; it has {known}"[:600])
    if len(found) > 1:
        places = " and ".join(each.place for each in found[:4])
        raise Unreadable(f"{wanted[:80]!r} may be {places}; pick one by its method and path")
    return found[0]
