"""Values are written into paths, queries and headers as OpenAPI's styles say."""

from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.base import ToolError
from tools.http.styles import HttpParameter, encode_header, encode_path, encode_query

LIST = ["a", "b c"]
MAP = {"k": 1, "l": "x,y"}


def encode_styled_path(style: str, explode: bool, content: object, **more: bool) -> str:
    return encode_path("/p/{v}", {"v": (HttpParameter("v", "v", "path", style, explode, **more), content)})


@pytest.mark.parametrize(
    ("style", "explode", "content", "written"),
    [
        ("simple", False, "a b/c", "/p/a%20b%2Fc"),
        ("simple", False, True, "/p/true"),
        ("simple", False, 1.5, "/p/1.5"),
        ("simple", False, LIST, "/p/a,b%20c"),
        ("simple", False, MAP, "/p/k,1,l,x%2Cy"),
        ("simple", True, MAP, "/p/k=1,l=x%2Cy"),
        ("label", False, "a", "/p/.a"),
        ("label", True, LIST, "/p/.a.b%20c"),
        ("label", False, LIST, "/p/.a,b%20c"),
        ("matrix", False, "a", "/p/;v=a"),
        ("matrix", False, LIST, "/p/;v=a,b%20c"),
        ("matrix", True, LIST, "/p/;v=a;v=b%20c"),
        ("matrix", True, MAP, "/p/;k=1;l=x%2Cy"),
    ],
)
def test_paths(style, explode, content, written):
    assert encode_styled_path(style, explode, content) == written


def test_json_in_a_path_and_dots_that_add_up_to_a_step_upwards():
    assert encode_styled_path("simple", False, {"a": 1}, as_json=True) == "/p/%7B%22a%22%3A1%7D"
    dot = HttpParameter("a", "a", "path", "simple", False)
    with pytest.raises(ToolError, match=r"\.\."):
        encode_path("/x/{a}{b}/y", {"a": (dot, "."), "b": (dot, ".")})
    with pytest.raises(ToolError, match="v must not be empty"):
        encode_styled_path("simple", False, None)


@pytest.mark.parametrize(
    ("style", "explode", "content", "written"),
    [
        ("form", True, "a&b=c#", "q=a%26b%3Dc%23"),
        ("form", True, None, ""),
        ("form", True, False, "q=false"),
        ("form", True, LIST, "q=a&q=b%20c"),
        ("form", False, LIST, "q=a,b%20c"),
        ("form", True, MAP, "k=1&l=x%2Cy"),
        ("form", False, MAP, "q=k,1,l,x%2Cy"),
        ("form", True, {"k": None, "m": {"n": 1}}, "m=%7B%22n%22%3A1%7D"),
        ("spaceDelimited", False, LIST, "q=a%20b%20c"),
        ("pipeDelimited", False, LIST, "q=a%7Cb%20c"),
        ("deepObject", True, {"a": {"b": [1, 2]}, "c": None, "d e": "x"}, "q[a][b]=1&q[a][b]=2&q[d%20e]=x"),
        ("deepObject", True, "plain", "q=plain"),
        ("form", True, [], ""),
    ],
)
def test_queries(style, explode, content, written):
    assert "&".join(encode_query(HttpParameter("q", "q", "query", style, explode), content)) == written


def test_reserved_characters_and_json_in_a_query():
    assert encode_query(HttpParameter("q", "q", "query", "form", True, reserved=True), "a/b:c&d=#+") == [
        "q=a/b:c%26d%3D%23%2B"
    ]
    assert encode_query(HttpParameter("q", "filter[a]", "query", "form", True, as_json=True), [1]) == [
        "filter[a]=%5B1%5D"
    ]


def test_headers():
    assert encode_header(HttpParameter("h", "H", "header", "simple", False), LIST) == "a,b c"
    assert encode_header(HttpParameter("h", "H", "header", "simple", True), {"a": 1}) == "a=1"
    assert (
        encode_header(HttpParameter("h", "H", "header", "simple", False, as_json=True), {"a": 1}) == '{"a":1}'
    )
    for text in ("a\r\nX: y", "é", "a\0b"):
        with pytest.raises(ToolError, match="h goes into a header"):
            encode_header(HttpParameter("h", "H", "header", "simple", False), text)


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_arrives_as_one_value(text):
    [piece] = encode_query(HttpParameter("q", "q", "query", "form", True), text)
    assert parse_qsl(piece, keep_blank_values=True, encoding="utf-8") == [("q", text)]
    try:
        _, start, segment = encode_styled_path("simple", False, text).split("/")
    except ToolError:
        return
    assert (start, unquote(segment)) == ("p", text)
