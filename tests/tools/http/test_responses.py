"""Responses: what the model reads of each, and how refusals are reported."""

import gzip
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from starlette.responses import Response

from tests.support.http_service import (
    API_KEY,
    call_tool,
    endless_response,
    running_http_service,
    ship_tool,
)
from tools.base import File, ToolError
from tools.http.responses import MAX_PARSED_CHARS, find_file, render_response
from tools.http.service import (
    MAX_RESPONSE_BYTES,
    Credentials,
    HttpResponse,
)
from tools.results import to_found

LONG_JSON = f"[{' ' * MAX_PARSED_CHARS}]"


@pytest.mark.usefixtures("extracted_here")
@pytest.mark.parametrize(
    ("response", "text"),
    [
        (Response('{"a": [1,  2],\n "é": null}', media_type="application/json"), '{"a":[1,2],"é":null}'),
        (Response('{"a": 1', media_type="application/problem+json"), '{"a": 1'),
        (Response("[" * 100_000, media_type="application/json"), "[" * 100_000),
        (Response(LONG_JSON, media_type="application/json"), LONG_JSON),
        (Response(b"\xe9", headers={"content-type": "text/plain; charset=latin-1"}), "é"),
        (Response(b"x", headers={"content-type": "text/plain; charset=nonsense"}), "x"),
        (Response(b'{"a": 1}'), '{"a":1}'),
        (Response(b"plain words"), "plain words"),
        (Response(b"\x89\0", media_type="audio/ogg"),
         "Done (200 OK). The answer is a file (audio/ogg, 2 bytes), which cannot be read."),
        (Response(b'{"a": 1}\n{"b":\t2}\n', media_type="application/x-ndjson"), '{"a":1}\n{"b":2}'),
        (Response("[1]", headers={"link": '</x?page=1>; rel="prev", </x?q=a&page=3>; rel="next"'},
                  media_type="application/json"),
         "[1]\n\n[There is more: the next page has q=a, page=3]"),
        (Response("<html><head><title>Tea</title></head><body><p>Sentences about tea, and more of them.</p>"
                  "<script>x()</script></body></html>", media_type="text/html"),
         "Tea\n\nSentences about tea, and more of them."),
        (Response(b"\xff\xfe\0"),
         "Done (200 OK). The answer is a file (of an unknown kind, 3 bytes), which cannot be read."),
        (Response(gzip.compress(b"words"), headers={"content-encoding": "gzip"}, media_type="text/plain"),
         "words"),
        (Response(status_code=202), "Done (202 Accepted). The answer is empty."),
    ],
)  # fmt: skip
async def test_responses_become_text(context, response, text):
    async with running_http_service() as harness:
        harness.responses["/ships/1"] = response
        assert to_found(await call_tool(ship_tool(harness), context, id="1", days=1)).text == text


@pytest.mark.parametrize(
    ("response", "file"),
    [
        (Response(b"\x89PNG\r\n", media_type="image/gif"), File("1", b"\x89PNG\r\n", media_type="image/png")),
        (Response(b"%PDF \0 k-1234567890", media_type="application/pdf",
                  headers={"content-disposition": "inline; filename*=UTF-8''b%C3%A9k-1234567890.pdf"}),
         File("bé•••.pdf", "%PDF \0 •••".encode(), media_type="application/pdf")),
        (Response("a,b", media_type="text/csv", headers={"content-disposition": "attachment"}),
         File("1", b"a,b", media_type="text/csv")),
        (Response("<svg/>", media_type="image/svg+xml"), File("1", b"<svg/>", media_type="image/svg+xml")),
        (Response(b"\x89PNG\r\n", media_type="text/csv"), File("1", b"\x89PNG\r\n", media_type="image/png")),
        (Response("a,b", media_type="text/csv"), None),
        (Response("{}", media_type="application/json"), None),
        (endless_response("image/png"), None),
    ],
)  # fmt: skip
async def test_what_is_no_text_or_to_be_saved_becomes_a_file_where_the_tool_delivers(context, response, file):
    async with running_http_service() as harness:
        harness.responses["/ships/1"] = response
        secrets = Credentials({"X-Key": API_KEY})
        tool = ship_tool(harness, credentials=secrets, policy=harness.network_policy("api.test"))
        found = to_found(await call_tool(tool, replace(context, delivers=True), id="1", days=1))
    assert found.files == (() if file is None else (file,))
    assert found.text
    assert not found.has_undelivered


@pytest.mark.parametrize(
    ("response", "complaint"),
    [
        (Response('{"error": "no such ship",  "x": 1}', 404, media_type="application/json"),
         r'^shipyard answered 404 Not Found: {"error":"no such ship","x":1}$'),
        (Response("long " * 500, 500), r"^shipyard answered 500 Internal Server Error: (long ){80}…$"),
        (Response(b"\0", 500, media_type="image/png"), r"^shipyard answered 500 Internal Server Error\.$"),
        (Response("slow", 429, headers={"retry-after": "30"}),
         r"^shipyard answered 429 Too Many Requests: slow \(Try again after 30 seconds\.\)$"),
        (Response(status_code=304), r"^shipyard answered 304 Not Modified\.$"),
        (Response(b"x", headers={"content-encoding": "br"}), "packed in a way that cannot be read"),
        (Response(b"not gzip", headers={"content-encoding": "gzip"}), "packed in a way that cannot be read"),
    ],
)  # fmt: skip
async def test_refusals_are_reported_with_status_and_a_short_excerpt(context, response, complaint):
    async with running_http_service() as harness:
        harness.responses["/ships/1"] = response
        with pytest.raises(ToolError, match=complaint):
            await call_tool(ship_tool(harness), context, id="1", days=1)


async def test_an_endless_response_is_cut_at_its_bound(context):
    async with running_http_service() as harness:
        harness.responses["/ships/1"] = endless_response()
        text = await call_tool(ship_tool(harness), context, id="1", days=1)
    assert len(text) < MAX_RESPONSE_BYTES + 100
    assert text.endswith("[What is beyond 2 MB of the answer is left out]")


@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=40) | st.text(max_size=20).map(str.encode),
    st.sampled_from(
        ["", "application/json", "text/plain; charset=", "text/x;charset*=x''%ff", "image/png", "a/b;c"]
    )
    | st.text(),
    st.integers(200, 599),
    st.sampled_from(["attachment", "attachment; filename=a/b", "x; filename*=x''%ff"]) | st.text(),
)
@example(b"x", "text/x;charset*=utf-8''é", 200, "attachment; filename*=UTF-8''é.pdf")
@example(b"x", "text/x;charset*=x\0''a", 200, "attachment; filename*0=a; filename*=b")
def test_any_response_becomes_text_or_a_refusal_in_a_sentence(body, kind, status, disposition):
    headers = {"content-type": kind, "content-disposition": disposition}
    response = HttpResponse("https://a.test/", status, "Odd", headers, body, True)
    file = find_file(response)
    assert file is None or file.data == body
    try:
        text = render_response(response, "s", "GET")
    except ToolError as error:
        text = str(error)
    assert text
