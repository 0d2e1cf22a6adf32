from typing import Any

import pytest

from bot.errors import ChangeRefused
from bot.tool_registry import openapi_sources as documents
from bot.tool_registry.previews import SourceRequest
from tests.support.openapi_shop import open_shop

PHOTO: dict[str, Any] = {
    "post": {
        "operationId": "sendPhoto",
        "requestBody": {"required": True, "content": {"multipart/form-data": {}}},
    },
    "get": {"operationId": "list-items"},
}


async def test_what_cannot_be_used_keeps_nothing_else_away_and_is_said():
    async with open_shop() as shop:
        shop.document["paths"]["/photos"] = PHOTO
        private = frozenset({"127.0.0.1"})
        looked = await documents.preview_document(
            SourceRequest("shop", shop.document_url, private_hosts=private), {}
        )

        offer = await documents.preview_operations(
            looked.source, looked.document, ["listItems", "sendPhoto", "orderItem"], private
        )
        assert [tool.name for tool in offer.tools] == ["shop_list_items", "shop_order_item"]
        assert offer.warnings[0].startswith(
            "The operation sendPhoto cannot be used: its body is multipart/form-data"
        )
        with pytest.raises(ChangeRefused, match=r"^The operation sendPhoto cannot be used: .* are sent\.$"):
            await documents.preview_operations(looked.source, looked.document, ["sendPhoto"], private)
        with pytest.raises(
            ChangeRefused, match="list-items and listItems, which is there already, are both called"
        ):
            await documents.preview_operations(offer.source, looked.document, ["list-items"], private)

        shop.document["paths"]["/orders"]["post"]["requestBody"] = PHOTO["post"]["requestBody"]
        now, lost = await documents.refresh_document(offer.source, {}, private)
        assert [one["operation"] for one in now.options["routes"]] == ["listItems"]
        assert [one[:67] for one in lost] == [
            "shop: The operation orderItem cannot be used: its body is multipart"
        ]
        del shop.document["paths"]["/items/{kind}"]
        now, lost = await documents.refresh_document(now, {}, private)
        assert (now.options["routes"], lost) == ([], ("shop has no listItems any more.",))
