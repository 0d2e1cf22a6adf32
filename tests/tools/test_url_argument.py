"""An argument that is an address is recognized by its name or its format."""

from typing import Any

import pytest

from tools.url_argument import find_url_argument

TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"city": TEXT, "url": TEXT}, "url"),
        ({"page": TEXT | {"format": "uri"}, "city": TEXT}, "page"),
        ({"page": TEXT | {"format": "date"}, "city": TEXT}, None),
        ({"page": True, "uri": False}, "uri"),
        ([], None),
    ],
)
def test_the_first_address_is_what_a_tool_opens(properties: Any, expected: str | None):
    schema = {"properties": properties}
    assert find_url_argument(schema, schema if isinstance(properties, dict) else {}) == expected


def test_an_argument_that_the_model_does_not_give_opens_nothing():
    assert find_url_argument({"properties": {"url": TEXT}}, {"properties": {}}) is None
