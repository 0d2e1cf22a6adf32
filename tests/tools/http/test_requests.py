"""Requests: any arguments make one to the route's own path, or are refused."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.base import ToolError
from tools.http.requests import build_request
from tools.http.routes import Body, HttpRoute, build_endpoint_route
from tools.http.service import parse_url
from tools.http.styles import HttpParameter

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


FORM = "application/x-www-form-urlencoded"
OBJECT = HttpParameter("filter", "filter", "query", "deepObject", explode=True)


def build_form_route(**body: object) -> HttpRoute:
    route = build_endpoint_route("x", "X.", "POST", "https://api.test/", {"properties": {}})
    return replace(route, body=Body(FORM, **body))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["account", "Account", "account[]", "account[x]", "account]"])
def test_an_object_in_a_form_cannot_bring_a_name_that_is_set(name):
    route = build_form_route(fields={"account": "account", "metadata": "metadata"})
    arguments = {"account": "mine", "metadata": {name: "victim"}}
    with pytest.raises(ToolError, match="metadata must not have account: it is set already"):
        build_request(route, arguments, "k", frozenset({"account"}))
    arguments["metadata"] = {"accounts": "a"}
    body = build_request(route, arguments, "k", frozenset({"account"})).body
    assert body == b"account=mine&accounts=a"


@pytest.mark.parametrize("media", [FORM, "application/json", "multipart/form-data"])
def test_a_body_that_is_one_argument_cannot_bring_a_name_that_is_set(media):
    route = replace(build_form_route(whole="body"), body=Body(media, whole="body"))
    with pytest.raises(ToolError, match="body must not have account: it is set already"):
        build_request(route, {"body": {"account": "victim"}}, "k", frozenset({"account"}))


@pytest.mark.parametrize("owner", ["victim", {"x": "victim"}, ["victim"]])
def test_a_deep_object_cannot_bring_a_name_that_is_set(owner):
    route = build_endpoint_route("x", "X.", "GET", "https://api.test/", {"properties": {}})
    owner_parameter = HttpParameter("filter_owner", "filter[owner]", "query", "form", explode=True)
    route = replace(route, values=(owner_parameter, OBJECT))
    fixed_names = frozenset({"filter[owner]"})
    with pytest.raises(ToolError, match=r"filter must not have filter\[owner\]: it is set already"):
        build_request(route, {"filter_owner": "mine", "filter": {"owner": owner}}, "k", fixed_names)
    request = build_request(route, {"filter_owner": "mine", "filter": {"state": "open"}}, "k", fixed_names)
    assert request.url == "https://api.test/?filter[owner]=mine&filter[state]=open"


def test_a_deep_object_that_is_set_as_a_whole_is_sent():
    route = build_endpoint_route("x", "X.", "GET", "https://api.test/", {"properties": {}})
    route = replace(route, values=(OBJECT,))
    request = build_request(route, {"filter": {"owner": "mine"}}, "k", frozenset({"filter"}))
    assert request.url == "https://api.test/?filter[owner]=mine"
