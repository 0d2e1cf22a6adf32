"""Operations of an OpenAPI document that cannot be used do not keep the others away, and are reported."""

from typing import Any

import pytest

from bot.errors import ChangeRefused
from bot.tool_registry.openapi_sources import preview_document, preview_operations, refresh_document
from bot.tool_registry.previews import SourceRequest
from tests.support.openapi_shop import open_shop

PHOTO: dict[str, Any] = {
    "post": {
        "operationId": "sendPhoto",
        "requestBody": {"required": True, "content": {"multipart/form-data": {}}},
    },
    "get": {"operationId": "list-items"},
}


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
        with pytest.raises(ChangeRefused, match=r"^The operation sendPhoto cannot be used: .* are sent\.$"):
            await preview_operations(
                document_preview.source, document_preview.document, ["sendPhoto"], private
            )
        with pytest.raises(
            ChangeRefused, match="list-items and listItems, which is there already, are both called"
        ):
            await preview_operations(preview.source, document_preview.document, ["list-items"], private)

        shop.document["paths"]["/orders"]["post"]["requestBody"] = PHOTO["post"]["requestBody"]
        refreshed, lost = await refresh_document(preview.source, {}, private)
        assert [route["operation"] for route in refreshed.options["routes"]] == ["listItems"]
        assert [sentence[:67] for sentence in lost] == [
            "shop: The operation orderItem cannot be used: its body is multipart"
        ]
        del shop.document["paths"]["/items/{kind}"]
        refreshed, lost = await refresh_document(refreshed, {}, private)
        assert (refreshed.options["routes"], lost) == ([], ("shop has no listItems any more.",))
