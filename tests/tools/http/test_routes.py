"""Routes to plain endpoints: what is refused, and how they are stored."""

import json

import pytest

from tests.support.http_service import (
    SHIP_SCHEMA,
)
from tools.http.routes import build_endpoint_route, route_from_json
from tools.schemas.signature import ToolDefinitionError


def test_a_route_is_kept_as_json():
    route = build_endpoint_route("ship", "Ships.", "post", "https://api.test/v1/ships/{id}", SHIP_SCHEMA)
    assert route_from_json(json.loads(json.dumps(route.as_json()))) == route
    assert (route.host, route.method) == ("api.test", "POST")
    listed = build_endpoint_route("ship", "Ships.", "GET", "https://api.test:444/{id}", SHIP_SCHEMA)
    assert route_from_json(json.loads(json.dumps(listed.as_json()))) == listed
    assert listed.host == "api.test:444"


@pytest.mark.parametrize(
    ("method", "url", "schema", "complaint"),
    [
        ("TRACE", "https://a.test/", SHIP_SCHEMA, "'TRACE' is no method that can be used: take one of GET"),
        ("GET", "ftp://a.test/", SHIP_SCHEMA, "begin with http"),
        ("GET", "file:///etc/passwd", SHIP_SCHEMA, "begin with http"),
        ("GET", "a.test/x", SHIP_SCHEMA, "begin with http"),
        ("GET", "https://me:pw@a.test/", SHIP_SCHEMA, "name or password"),
        ("GET", "https://{id}.test/", SHIP_SCHEMA, "outside of its path"),
        ("GET", "https://a.test/x?id={id}", SHIP_SCHEMA, "must end before its"),
        ("GET", "https://a.test/x?y=1", SHIP_SCHEMA, "must end before its"),
        ("GET", "https://a.test/{nothing}", SHIP_SCHEMA, "asks for 'nothing', which is not described"),
        ("GET", "http://[::1", SHIP_SCHEMA, "no web address"),
        ("GET", "https://a.test/", [], "must be a JSON object"),
        ("GET", "https://a.test/", {"type": "array"}, "describe an object"),
        (
            "GET",
            "https://a.test/",
            {"properties": {"x": {"$ref": "file:///etc/passwd"}}},
            "only references within",
        ),
    ],
)
def test_an_invalid_endpoint_is_refused_in_a_sentence(method, url, schema, complaint):
    with pytest.raises(ToolDefinitionError, match=complaint):
        build_endpoint_route("x", "X.", method, url, schema)
