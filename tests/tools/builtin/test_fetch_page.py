"""Pages of the web: what is read, what is refused, and which addresses are never opened."""

import asyncio
import ssl
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.web_site import build_response, gzip_response, running_site
from tools.base import ToolContext, ToolError, run_tool
from tools.builtin.fetch_page import make_page_tool
from tools.net import pages
from tools.net.pages import PageReader
from tools.net.readable import extract_readable
from tools.sandbox.process import SandboxLimits, SandboxStopped

TLS = Path(__file__).parents[2] / "fixtures" / "tls"
NAMES = {"page.test": ["127.0.0.1"]}
ARTICLE = (
    "<!doctype html><html><head><title>Tea &amp;\n cake</title><script>spy()</script></head>"
    "<body><nav>Menu</nav>"
    "<article><h1>On tea</h1>"
    + "".join(
        f"<p>Sentence {n} about tea, which is long enough to be taken for text.</p>" for n in range(200)
    )
    + "</article></body></html>"
)


async def read_page(responses: dict[str, bytes], context: ToolContext, path: str = "/") -> str:
    async with running_site(responses) as site:
        tool = make_page_tool(site.page_reader(NAMES, "127.0.0.1"))
        return (await run_tool(tool, {"url": f"http://page.test:{site.port}{path}"}, context)).text.replace(
            str(site.port), "PORT"
        )


async def test_a_page_is_read_with_title_address_and_a_bounded_text(context):
    text = await read_page({"/": build_response(ARTICLE)}, context)
    assert text.startswith("Tea & cake\nhttp://page.test:PORT/\n\n# On tea\n\nSentence 0 about tea")
    assert text.endswith("more characters of the page are left out]")
    assert 6000 < len(text) < 6200
    assert "spy" not in text


@pytest.mark.usefixtures("extracted_here")
@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (build_response("plain <b>", "text/plain; charset=utf-8"), "plain <b>"),
        (build_response("gr\xfc\xdfe".encode("latin-1"), "text/plain; charset=latin-1"), "grüße"),
        (build_response("ä".encode(), "text/plain; charset=hex"), "ä"),
        (build_response("ä".encode(), "text/plain; charset=none-such"), "ä"),
        (build_response('{"a": 1}', "application/json"), '{"a": 1}'),
        (build_response("<rss/>", "application/rss+xml"), "<rss/>"),
        (build_response("just text", None), "just text"),
        (build_response("<html><body><p>Guessed to be a page.</p>", None), "Guessed to be a page."),
        (build_response("<html><body></body></html>"), "The page has no readable text."),
        (build_response("", status="204 No Content"), "The page has no readable text."),
        (gzip_response(ARTICLE.encode()), "Sentence 0 about tea"),
        (build_response(zlib.compress(b"deflated"), "text/plain", content_encoding="deflate"), "deflated"),
        (
            build_response(
                "<?xml version='1.0' encoding='utf-8'?><html><p>Strict.</p></html>", "application/xhtml+xml"
            ),
            "Strict.",
        ),
        (
            build_response(
                "<html><meta charset='iso-8859-1'><p>Gr\xfc\xdfe aus K\xf6ln.</p>".encode("latin-1")
            ),
            "Grüße aus Köln.",
        ),
    ],
)
async def test_text_of_many_kinds_is_read(context, page, expected):
    assert expected in await read_page({"/": page}, context)


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        (build_response("gone", status="404 Not Found"), "The site answered 404 Not Found."),
        (build_response("%PDF", "application/pdf"), r"a file \(application/pdf\)"),
        (build_response(b"\0\1\2", None), "a file of an unknown kind"),
        (build_response("x", content_encoding="br"), "packed in a way"),
        (build_response("not gzip", content_encoding="gzip"), "packed in a way"),
        (
            build_response("", status="302 Found", location="http://page.test:none/"),
            "redirects to something that is no address",
        ),
        (build_response("", status="302 Found", location="/"), "redirects more than 5 times"),
        (
            build_response("", status="302 Found", location="ftp://page.test/"),
            "Only addresses that begin with http",
        ),
        (
            build_response("", status="302 Found", location="http://other.test:1/"),
            "Port 1 is not one of web pages",
        ),
        (b"nonsense\r\n\r\n", "not HTTP"),
    ],
)
async def test_what_cannot_be_read_is_refused_with_the_reason(context, page, complaint):
    with pytest.raises(ToolError, match=complaint):
        await read_page({"/": page}, context)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("ftp://page.test/", "Only addresses that begin with http"),
        ("file:///etc/passwd", "Only addresses that begin with http"),
        ("http://", "Only addresses that begin with http"),
        ("http://page.test/" + "x" * 2000, "Only addresses that begin with http"),
        ("javascript:alert(1)", "no web address"),
        ("http://[::1/", "no web address"),
        ("http://me:secret@page.test/", "name or password"),
        ("http://page.test:22/", "Port 22"),
        ("http://page.test:6379/", "Port 6379"),
        ("nowhere.test", "No host is called nowhere.test"),
    ],
)
async def test_addresses_that_are_no_pages_are_refused(url, complaint):
    async def nothing(host: str, port: int) -> list[str]:
        raise OSError("unknown")

    with pytest.raises(ToolError, match=complaint):
        await PageReader(resolve=nothing).read(url, 100)


@pytest.mark.usefixtures("extracted_here")
async def test_redirects_are_followed_and_the_final_address_is_shown(context):
    responses = {
        "/": build_response("", status="301 Moved", location="/next?a=1#part", set_cookie="spy=1"),
        "/next?a=1": build_response("", status="307 Again", location="last"),
        "/last": build_response("here", "text/plain"),
    }
    assert await read_page(responses, context) == "http://page.test:PORT/last\n\nhere"


@pytest.mark.usefixtures("extracted_here")
async def test_no_cookies_or_credentials_are_sent():
    responses = {
        "/": build_response("", status="302 Found", location="/b", set_cookie="spy=1"),
        "/b": build_response("b", "text/plain"),
    }
    async with running_site(responses) as site:
        await site.page_reader(NAMES, "127.0.0.1").read(f"http://page.test:{site.port}/", 10)
    for _, request in site.requests:
        assert f"host: page.test:{site.port}" in request.lower()
        assert "cookie" not in request.lower()
        assert "authorization" not in request.lower()


async def test_a_redirect_to_a_private_address_is_refused_and_never_opened():
    responses = {"/": build_response(""), "/secret": build_response("secret", "text/plain")}
    async with running_site(responses, "127.0.0.1", "127.0.0.2") as site:
        responses["/"] = build_response(
            "", status="302 Found", location=f"http://127.0.0.2:{site.port}/secret"
        )
        names = {**NAMES, "127.0.0.2": ["127.0.0.2"]}
        with pytest.raises(ToolError, match=r"127\.0\.0\.2 is not on the public internet"):
            await site.page_reader(names, "127.0.0.1").read(f"http://page.test:{site.port}/", 10)
    assert [address for address, _ in site.requests] == ["127.0.0.1"]


async def test_a_name_that_changes_its_address_after_the_check_is_not_followed():
    """The address is checked again for every hop, and what was checked is what is opened."""
    responses = {
        "/": build_response("", status="302 Found", location="/b"),
        "/b": build_response("secret", "text/plain"),
    }
    answers = [["127.0.0.1"], ["127.0.0.2"]]
    async with running_site(responses, "127.0.0.1", "127.0.0.2") as site:

        async def changing(host: str, port: int) -> list[str]:
            return answers.pop(0)

        reader = PageReader(lambda address: str(address) == "127.0.0.1", changing, frozenset({site.port}))
        with pytest.raises(ToolError, match="not on the public internet"):
            await reader.read(f"http://page.test:{site.port}/", 10)
    assert [address for address, _ in site.requests] == ["127.0.0.1"]
    assert answers == []


@pytest.mark.usefixtures("extracted_here")
async def test_the_next_address_of_a_name_is_tried_when_one_does_not_answer():
    async with running_site({"/": build_response("here", "text/plain")}) as site:
        reader = site.page_reader({"page.test": ["127.0.0.3", "127.0.0.1"]}, "127.0.0.3", "127.0.0.1")
        assert (await reader.read(f"http://page.test:{site.port}/", 10)).text == "here"
        with pytest.raises(ToolError, match="the site does not answer"):
            await site.page_reader({"page.test": ["127.0.0.3"]}, "127.0.0.3").read(
                f"http://page.test:{site.port}/", 10
            )


@pytest.mark.usefixtures("extracted_here")
async def test_tls_is_for_the_name_though_the_address_is_connected_to():
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(TLS / "page.test.crt", TLS / "page.test.key")
    trust = ssl.create_default_context(cafile=str(TLS / "page.test.crt"))
    names = {"page.test": ["127.0.0.1"], "other.test": ["127.0.0.1"]}
    async with running_site({"/": build_response("safe", "text/plain")}, tls=server_context) as site:
        reader = site.page_reader(names, "127.0.0.1", ssl_context=trust)
        assert (await reader.read(f"https://page.test:{site.port}/", 10)).text == "safe"
        assert site.sni_names == ["page.test"]
        with pytest.raises(ToolError, match="certificate is not valid"):
            await reader.read(f"https://other.test:{site.port}/", 10)
        with pytest.raises(ToolError, match="certificate is not valid"):
            await site.page_reader(names, "127.0.0.1").read(f"https://page.test:{site.port}/", 10)


@pytest.mark.usefixtures("extracted_here")
async def test_a_small_response_cannot_expand_without_bound():
    bomb = gzip_response(b"a" * 20_000_000)
    async with running_site({"/": bomb, "/long": build_response("b" * 3_000_000, "text/plain")}) as site:
        reader = site.page_reader(NAMES, "127.0.0.1")
        for path in ("/", "/long"):
            page = await reader.read(f"http://page.test:{site.port}{path}", 10)
            assert len(page.text) <= 10
            assert not page.is_complete


async def test_a_silent_site_is_given_up():
    async with running_site({"/": b""}) as site:
        reader = replace(site.page_reader(NAMES, "127.0.0.1"), timeout_seconds=0.3)
        with pytest.raises(ToolError, match=r"took longer than 0\.3 seconds"):
            await reader.read(f"http://page.test:{site.port}/", 10)


async def test_a_page_that_keeps_the_extractor_busy_is_read_without_it(monkeypatch: pytest.MonkeyPatch):
    async def stop_busy(
        function: Callable[..., Any], body: bytes, _: SandboxLimits, *, plainly: bool, **options: Any
    ) -> Any:
        if not plainly or body.startswith(b"<a"):
            raise SandboxStopped("it took longer than 3 seconds of the processor")
        return function(body, plainly=plainly, **options)

    monkeypatch.setattr(pages, "run_in_sandbox", stop_busy)
    responses = {"/": build_response("<table>" + "<tr><td>x" * 9), "/worse": build_response("<a" * 9)}
    async with running_site(responses) as site:
        reader = site.page_reader(NAMES, "127.0.0.1")
        assert (await reader.read(f"http://page.test:{site.port}/", 3)).text == "x\nx"
        with pytest.raises(ToolError, match="text cannot be found"):
            await reader.read(f"http://page.test:{site.port}/worse", 3)


async def test_cancelling_ends_the_reading():
    async with running_site({"/": b""}) as site, asyncio.TaskGroup() as tasks:
        url = f"http://page.test:{site.port}/"
        task = tasks.create_task(site.page_reader(NAMES, "127.0.0.1").read(url, 10))
        while not site.requests:  # noqa: ASYNC110 - the request is script in the list
            await asyncio.sleep(0.01)
        task.cancel()
    assert task.cancelled()


def test_extractor_and_parsers_of_documents_are_never_imported_by_the_gateway():
    script = (
        "import sys, tools.openapi.documents; from tools.registry import discover; "
        "assert len(discover()) == 9; print(sorted(sys.modules))"
    )
    modules = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert "'tools.net.readable'" in modules
    assert "'tools.openapi.worker'" in modules
    for library in ("trafilatura", "lxml", "openapi_pydantic", "yaml'"):
        assert f"'{library}" not in modules


@pytest.mark.parametrize("plainly", [False, True])
def test_titles_and_visible_words_are_found_and_hidden_ones_are_not(plainly):
    page = (
        "<html><head><title>One</title><style>p{}</style></head><body>"
        "<svg><title>Icon</title></svg><p>Some words\x00 "
        "here.<p>And more.<script>no()</script></span></body></html>"
    )
    extracted = extract_readable(page.encode(), "html", "utf-8", 1000, plainly)
    assert extracted["title"] == "One"
    assert extracted["text"].split() == ["Some", "words", "here.", "And", "more."]
    assert extracted["length"] == len(extracted["text"])


def test_a_head_that_is_never_closed_does_not_hide_the_body():
    assert (
        extract_readable(b"<head><title>One</title><body>Words.", "html", "", 100, plainly=True)["text"]
        == "Words."
    )


def test_an_empty_page_has_an_empty_text():
    assert extract_readable(b"", "html", "", 100) == {"title": "", "text": "", "length": 0}


PIECES = st.sampled_from(
    [b"<p>", b"<div", b"</body>", b"<title>", b"&#x110000;", b"<![CDATA[", b"<!--", b"\xff\xfe", b"a "]
)
CHARSETS = (
    st.sampled_from(["", "utf-8", "utf-16", "utf-7", "idna", "punycode", "undefined", "hex", "x\0"])
    | st.text()
)


@settings(deadline=None, max_examples=60)
@given(
    st.binary() | st.lists(PIECES).map(b"".join),
    st.sampled_from(["html", "text", ""]),
    CHARSETS,
    st.booleans(),
)
def test_any_bytes_give_some_text(body, kind, charset, plainly):
    extracted = extract_readable(body, kind, charset, 20, plainly)
    assert len(extracted["text"]) <= 20
    assert extracted["length"] >= len(extracted["text"])
