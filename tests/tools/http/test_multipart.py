"""Forms of parts, as a parser of another library reads them."""

import json
from email import policy
from email.parser import BytesParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import Response

from tests.support.http_service import call_tool, running_http_service, ship_tool
from tools.base import Found
from tools.http.multipart import encode_multipart
from tools.http.styles import HttpParameter


def parse(media_type: str, body: bytes):
    """The parts as (name, file name, type, text)."""
    message = BytesParser(policy=policy.HTTP).parsebytes(
        f"Content-Type: {media_type}\r\n\r\n".encode() + body
    )
    parts = []
    for part in message.iter_parts():
        payload = part.get_payload(decode=True)
        assert isinstance(payload, bytes)
        name = part.get_param("name", header="content-disposition")
        parts.append((name, part.get_filename(), part.get_content_type(), payload.decode()))
    return parts


def test_fields_lists_objects_and_files_are_parts():
    content = {
        "title": "Grüße",
        "count": 3,
        "tags": ["a", "b"],
        "ids": [1, 2],
        "meta": {"a": [1]},
        "document": "line 1\nline 2",
        "table": "a,b",
        "none": None,
    }
    ids = HttpParameter("ids", "ids", "query", "form", explode=False)
    media_type, body = encode_multipart(
        content, {"document": "text/plain", "table": "text/csv"}, {"ids": ids}
    )
    assert parse(media_type, body) == [
        ("title", None, "text/plain", "Grüße"),
        ("count", None, "text/plain", "3"),
        ("tags", None, "text/plain", "a"),
        ("tags", None, "text/plain", "b"),
        ("ids", None, "text/plain", "1,2"),
        ("meta", None, "application/json", '{"a":[1]}'),
        ("document", "document.txt", "text/plain", "line 1\nline 2"),
        ("table", "table.csv", "text/csv", "a,b"),
    ]
    assert encode_multipart(content, {}, {}) == encode_multipart(content, {}, {})


@given(st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=50), max_size=5))
def test_no_value_ends_its_part_or_brings_a_header(content):
    media_type, body = encode_multipart(content, {}, {})
    boundary = media_type.partition("boundary=")[2].encode()
    assert body.count(b"--" + boundary) == len(content) + 1
    assert body.count(b"Content-Disposition: form-data") >= len(content)
    heads = [part.partition(b"\r\n\r\n")[0] for part in body.split(b"--" + boundary + b"\r\n")[1:]]
    assert all(head.count(b"\r\n") == 0 for head in heads)


@pytest.mark.parametrize(
    ("stated", "kind"),
    [("image/png", "image/png"), ("image/jpeg", "image/jpeg"), ("application/json", "image/png")],
)
async def test_a_picture_of_a_service_reaches_the_model_as_one(context, stated, kind):
    async with running_http_service() as harness:
        harness.responses["/ships/7"] = Response(b"\x89PNG\r\n data", media_type=stated)
        result = await call_tool(ship_tool(harness), context, id="7", days=1)
    assert isinstance(result, Found)
    assert result.text == f"A picture ({kind}, 11 bytes)."
    assert result.has_undelivered
    assert (result.images[0].media_type, result.images[0].data) == (kind, b"\x89PNG\r\n data")
    assert json.dumps(result.text)
