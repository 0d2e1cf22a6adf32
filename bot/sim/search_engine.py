"""A simulated SearXNG: its JSON API over pages of our own, as strict as the real one; and these pages.

As it is shipped it answers in HTML alone, and with 403 where JSON is asked for.
"""

import asyncio
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

SHIPPED_FORMATS = ("html",)
JSON_ENABLED = ("html", "json")
_KNOWN_FORMATS = ("html", "csv", "json", "rss")
_TIME_RANGES = ("", "day", "week", "month", "year")
_HITS_A_PAGE = 20


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page that can be found; `date` is in ISO 8601."""

    url: str
    title: str
    text: str
    date: str | None = None


@dataclass(eq=False)
class SimulatedSearchEngine:
    """An instance that finds `pages` by their words.

    `unresponsive` are engines that do not respond, each with the reason, unless a request leaves them out.
    `response`, if set, is sent instead, `delay_seconds` late. `requests` are the parameters of each.
    """

    pages: Sequence[WebPage] = ()
    formats: Sequence[str] = SHIPPED_FORMATS
    unresponsive: Sequence[tuple[str, str]] = ()
    response: Response | None = None
    delay_seconds: float = 0.0
    requests: list[dict[str, str]] = field(default_factory=list)

    @property
    def app(self) -> Starlette:
        """The instance as an ASGI app, which also serves the pages of hosts that lead to it.

        A browser, to which they do not lead, finds a page by its host and path behind the own address.
        """
        search = Route("/search", self._search, methods=["GET", "POST"])
        return Starlette(routes=[search, Route("/{path:path}", self._show_page)])

    async def _show_page(self, request: Request) -> Response:
        names = (str(request.url).partition("//")[2], request.url.path.removeprefix("/"))
        for page in self.pages:
            if page.url.partition("//")[2] in names:
                return HTMLResponse(_render_page(page))
        return HTMLResponse("<h1>404 Not Found</h1>", 404)

    async def _search(self, request: Request) -> Response:
        params = {**request.query_params}
        if request.method == "POST":
            params |= {name: str(value) for name, value in (await request.form()).items()}
        self.requests.append(params)
        await asyncio.sleep(self.delay_seconds)
        if self.response is not None:
            return self.response
        output_format = params.get("format", "html")
        if output_format not in _KNOWN_FORMATS:
            output_format = "html"
        if output_format not in self.formats:
            return HTMLResponse("<h1>403 Forbidden</h1>", 403)
        if not params.get("q"):
            return JSONResponse({"error": "No query"}, 400)
        if params.get("time_range", "") not in _TIME_RANGES or not params.get("pageno", "1").isdigit():
            return JSONResponse({"error": "Invalid settings"}, 400)
        if output_format != "json":
            return HTMLResponse(f"<title>{html.escape(params['q'])} - SearXNG</title>")
        return JSONResponse(self._build_answer(params))

    def _build_answer(self, params: dict[str, str]) -> dict[str, object]:
        left_out = params.get("disabled_engines", "").split(",")
        unresponsive = [[*pair] for pair in self.unresponsive if f"{pair[0]}__general" not in left_out]
        pages = self._find(params["q"])[:_HITS_A_PAGE]
        return {
            "query": params["q"],
            "number_of_results": 0,
            "results": [_build_result(page, rank) for rank, page in enumerate(pages, 1)],
            "answers": [],
            "corrections": [],
            "infoboxes": [],
            "suggestions": [],
            "unresponsive_engines": unresponsive,
        }

    def _find(self, question: str) -> list[WebPage]:
        """The pages that have words of the question, those with most of them first."""
        words = set(re.findall(r"\w{3,}", question.lower()))
        scores = {page: len(words & set(_list_words(page))) for page in self.pages}
        return sorted((page for page in self.pages if scores[page]), key=lambda page: -scores[page])


def _list_words(page: WebPage) -> list[str]:
    return re.findall(r"\w{3,}", f"{page.title} {page.text}".lower())


def _render_page(page: WebPage) -> str:
    title = html.escape(page.title)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><article><h1>{title}</h1><p>{html.escape(page.text)}</p></article>"
    )


def _build_result(page: WebPage, rank: int) -> dict[str, object]:
    """A result with the fields that SearXNG gives it."""
    return {
        "url": page.url,
        "title": page.title,
        "content": page.text,
        "publishedDate": page.date,
        "thumbnail": None,
        "engine": "duckduckgo",
        "template": "default.html",
        "parsed_url": ["https", "", "", "", "", ""],
        "img_src": "",
        "priority": "",
        "engines": ["duckduckgo", "bing"],
        "positions": [rank],
        "score": 1.0 / rank,
        "category": "general",
    }
