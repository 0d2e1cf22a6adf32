"""Operations of an OpenAPI document that cannot be used do not keep the others away, and are reported."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from bot.db.tools.sources import Source
from bot.errors import ChangeRefused
from bot.tool_registry.openapi_sources import (
    list_operations,
    preview_document,
    preview_operations,
    refresh_document,
    resolve_operations,
    search,
)
from bot.tool_registry.operation_search import DocumentOperation
from bot.tool_registry.previews import SourceRequest
from bot.tool_registry.service_access import ServiceAccess
from tests.support.openapi_shop import open_shop
from tools.openapi import documents
from tools.sandbox.process import SandboxLimits

PHOTO: dict[str, Any] = {
    "post": {
        "operationId": "sendPhoto",
        "requestBody": {"required": True, "content": {"multipart/form-data": {}}},
    },
    "get": {"operationId": "list-items"},
}


@pytest.fixture(autouse=True)
def _no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads documents in this process; tests/tools/openapi/test_sandboxed_documents.py has the real one."""

    async def run_here(function: Callable[..., Any], body: bytes, _: SandboxLimits, **arguments: Any) -> Any:
        return json.loads(json.dumps(function(body, **arguments)))

    monkeypatch.setattr(documents, "run_in_sandbox", run_here)


async def test_an_unusable_operation_is_reported_and_the_others_are_used():
    async with open_shop() as shop:
        shop.document["paths"]["/photos"] = PHOTO
        private = frozenset({"127.0.0.1"})
        document_preview = await preview_document(
            SourceRequest("shop", shop.document_url, private_hosts=private), {}
        )

        preview = await preview_operations(
            document_preview.source,
            document_preview.document,
            ["listItems", "sendPhoto", "orderItem"],
            private,
        )
        assert [tool.name for tool in preview.tools] == ["shop_list_items", "shop_order_item"]
        assert preview.warnings[0].startswith(
            "The operation sendPhoto cannot be used: its body is multipart/form-data"
        )
        with pytest.raises(ChangeRefused, match=r"^The operation sendPhoto cannot be used: .* parts\.$"):
            await preview_operations(
                document_preview.source, document_preview.document, ["sendPhoto"], private
            )
        doubled = await preview_operations(preview.source, document_preview.document, ["list-items"], private)
        assert [tool.name for tool in doubled.tools] == [
            *("shop_list_items", "shop_order_item", "shop_list_items_2")
        ]
        refreshed, _ = await refresh_document(doubled.source, {}, private)
        assert [route["name"] for route in refreshed.options["routes"]] == [
            *("shop_list_items", "shop_order_item", "shop_list_items_2")
        ]

        shop.document["paths"]["/orders"]["post"]["requestBody"] = PHOTO["post"]["requestBody"]
        refreshed, lost = await refresh_document(preview.source, {}, private)
        assert [route["operation"] for route in refreshed.options["routes"]] == ["listItems"]
        assert [sentence[:67] for sentence in lost] == [
            "shop: The operation orderItem cannot be used: its body is multipart"
        ]
        del shop.document["paths"]["/items/{kind}"]
        refreshed, lost = await refresh_document(refreshed, {}, private)
        assert (refreshed.options["routes"], lost) == ([], ("shop has no listItems any more.",))


async def test_a_document_at_the_same_host_without_encryption_is_asked_for_without_secrets():
    """The base URL is encrypted, so the secrets are for that only."""
    async with open_shop() as shop:
        access = ServiceAccess(
            headers={"X-Key": "{shop}"}, base_url=f"{shop.url.replace('http:', 'https:')}/v1"
        )
        request = SourceRequest(
            "shop", shop.document_url, access=access, private_hosts=frozenset({"127.0.0.1"})
        )
        await preview_document(request, {"shop": "hunter2hunter2"})
    [headers] = shop.document_headers
    assert "x-key" not in headers


def build_source(*operations: str, **options: Any) -> Source:
    offered = [
        asdict(DocumentOperation(name, "GET", f"/{name}", name.lower(), summary, "shop.test"))
        for name, summary in (text.split(": ") for text in operations)
    ]
    return Source("shop", "openapi", "https://shop.test", {"offered": offered, **options})


def test_a_pick_that_is_not_found_says_why_and_what_is_similar():
    source = build_source(
        "createIssue: Create an issue", "listIssues: List issues", unusable={"upload": "its body is a file"}
    )
    assert resolve_operations(source, ["GET /createIssue", "2", "CREATEISSUE"]) == [
        *("createIssue", "listIssues", "createIssue")
    ]
    with pytest.raises(ChangeRefused, match=r"^upload can't be picked: Its body is a file\.$"):
        resolve_operations(source, ["Upload"])
    with pytest.raises(
        ChangeRefused, match=r"doesn't have an operation 'issue'\. Similar: createIssue, listIssues\.$"
    ):
        resolve_operations(source, ["issue"])
    with pytest.raises(ChangeRefused, match=r"doesn't have an operation 'zebra'\.$"):
        resolve_operations(source, ["zebra"])


def test_every_operation_of_a_large_document_can_be_picked():
    source = build_source(*(f"op{number}: Number {number}" for number in range(5000)))
    names = resolve_operations(source, ["all"])
    assert resolve_operations(source, [*names, "4999"]) == [*names, "op4998"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("create issue", ["createIssue", "createIssueComment"]),
        ("comment", ["createIssueComment", "listPulls"]),
        ("pull requests", ["listPulls"]),
        ("zebra", []),
        ("issue zebra", ["createIssue", "createIssueComment"]),
    ],
)
def test_operations_are_found_by_words_the_best_first(words, found):
    source = build_source(
        "createIssue: Open one", "createIssueComment: Write to it", "listPulls: Pull requests and comments"
    )
    operations = list_operations(source)
    assert [operations[index].operation for index in search(source, words)] == found
