"""Requests: any arguments make one to the route's own path, or are refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.base import ToolError
from tools.http.requests import build_request
from tools.http.routes import build_endpoint_route
from tools.http.service import (
    parse_url,
)

ANY_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["\ud800", "..", "a\r\nb"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["GET", "POST"]), ANY_VALUES, ANY_VALUES)
def test_any_arguments_make_a_request_to_the_same_path_or_are_refused(method, path_value, body_value):
    route = build_endpoint_route(
        "x", "X.", method, "https://api.test/a/{id}", {"properties": {"id": {}, "b": {}}}
    )
    try:
        request = build_request(route, {"id": path_value, "b": body_value}, "k")
        url = parse_url(request.url)
    except ToolError as error:
        assert len(str(error)) < 200  # noqa: PT017
        return
    assert (url.host, url.raw_path[:3], url.fragment) == ("api.test", b"/a/", "")
    assert url.raw_path.partition(b"?")[0].count(b"/") == 2


def test_an_address_that_grows_too_long_is_refused():
    route = build_endpoint_route("x", "X.", "GET", "https://api.test/", {"properties": {"q": {}}})
    with pytest.raises(ToolError, match="longer than 8000 characters; send less"):
        parse_url(build_request(route, {"q": "x" * 9000}, "k").url)


def test_a_call_without_a_piece_of_its_address_is_refused():
    route = build_endpoint_route("x", "X.", "GET", "https://api.test/{id}", {"properties": {"id": {}}})
    with pytest.raises(ToolError, match="x needs id: it is a part of the address"):
        build_request(route, {}, "k")
