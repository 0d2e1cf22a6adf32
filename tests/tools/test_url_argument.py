"""An argument that is an address is known by its name or its format."""

from typing import Any

import pytest

from tools.url_argument import find_url_argument

TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ({"city": TEXT, "url": TEXT}, "url"),
        ({"page": TEXT | {"format": "uri"}, "city": TEXT}, "page"),
        ({"page": TEXT | {"format": "date"}, "city": TEXT}, None),
        ({"page": True, "uri": False}, "uri"),
        ([], None),
    ],
)
def test_the_first_address_is_what_a_tool_opens(properties: Any, found: str | None):
    schema = {"properties": properties}
    assert find_url_argument(schema, schema if isinstance(properties, dict) else {}) == found


def test_one_that_the_model_is_not_asked_for_opens_nothing():
    assert find_url_argument({"properties": {"url": TEXT}}, {"properties": {}}) is None
