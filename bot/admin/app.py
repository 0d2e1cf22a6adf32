"""The page as an ASGI app: address, session and form are checked, then a view of a screen is called."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import htpy as h
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from bot.admin import login
from bot.admin.components import build_url, cut
from bot.admin.cookies import read_cookie, set_cookie
from bot.admin.error_pages import PageRefused, describe_error
from bot.admin.guard import AddressGuard, check_form, check_origin
from bot.admin.layout import PageFrame
from bot.admin.page_address import PageAddress
from bot.admin.page_request import (
    Act,
    Content,
    Download,
    Fragment,
    PageDependencies,
    PageRequest,
    Redirect,
    Screen,
    ScreenPage,
    View,
    Viewer,
)
from bot.admin.screens import load_screens
from bot.admin.static_files import StaticFiles
from bot.admin.table_view import add_exports
from bot.db.people.page_sessions import ADMIN_PATH, SESSION_HOURS
from bot.db.usage import counter_readings
from bot.errors import CanvasgramError, StoreBusy
from bot.rate_limit import RateLimiter

MAX_FORM_BYTES = 65_536
MAX_FORM_FIELDS = 100
MAX_NOTE_CHARACTERS = 200
WRONG_LINKS_PER_MINUTE = 10  # of one address
FORM_SECONDS = 10.0  # in which a whole form has to come
RENDER_STEP_SECONDS = 0.002
_LINK_GONE = (
    "This link was used already, or is older than five minutes. Write /admin to the bot for another one."
)

AdminRoutes = list[BaseRoute]
"""The page as a part of an app."""

Form = Mapping[str, str]
Handler = Callable[[Request, Viewer, Form], Awaitable[Response]]


def build_admin_routes(
    dependencies: PageDependencies, screens: Sequence[Screen] | None = None
) -> AdminRoutes:
    """The page as the part of an app at ADMIN_PATH; `screens` None: all there are."""
    return _AdminApp(dependencies, load_screens() if screens is None else screens).build()


def build_admin_app(dependencies: PageDependencies, screens: Sequence[Screen] | None = None) -> ASGIApp:
    """An app that has only the page."""
    return Starlette(routes=build_admin_routes(dependencies, screens))


class _AdminApp:
    def __init__(self, dependencies: PageDependencies, screens: Sequence[Screen]) -> None:
        self._dependencies = dependencies
        self._screens = screens
        self._files = StaticFiles()
        self._frame = PageFrame(screens, self._files)
        self._wrong_links = RateLimiter(WRONG_LINKS_PER_MINUTE, 60.0)

    def build(self) -> AdminRoutes:
        """The routes, behind the check of the address."""
        address = PageAddress(self._dependencies.settings.admin_url)
        without_slash = RedirectResponse(f"{ADMIN_PATH}/", 303)
        return [
            Route(ADMIN_PATH, AddressGuard(without_slash, address, self._frame)),
            Mount(ADMIN_PATH, AddressGuard(self._build_app(), address, self._frame)),
        ]

    def _build_app(self) -> ASGIApp:
        routes = [
            Route("/static/{digest}/{name}", self._files.answer),
            Route("/login/{link}", self._show_link, methods=["GET"]),
            Route("/login/{link}", self._log_in, methods=["POST"]),
            Route("/logout", self._for_viewers(self._log_out), methods=["POST"]),
            Route("/", self._for_viewers(self._open_first)),
        ]
        for screen in self._screens:
            for path, view in screen.views.items():
                handler = partial(self._show, screen, view)
                routes.append(Route(f"/{screen.name}{path}", self._for_viewers(handler), methods=["GET"]))
            for path, act in screen.acts.items():
                handler = partial(self._do, screen, act)
                routes.append(Route(f"/{screen.name}{path}", self._for_viewers(handler), methods=["POST"]))
        errors = (HTTPException, CanvasgramError, Exception)
        app = Starlette(routes=routes, exception_handlers=dict.fromkeys(errors, self._show_error))
        app.router.redirect_slashes = False  # it would name a scheme, which a proxy in front may have changed
        return app

    def _for_viewers(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Call `handler` for an admin whose session is valid; others learn how to log in.

        Whose it is, is asked once the whole form is there: who sends it slowly may be no admin any more.
        """

        async def endpoint(request: Request) -> Response:
            viewer: Viewer | None = None
            try:
                form = await read_form(request) if request.method == "POST" else {}
                viewer = await self._find_viewer(request)
                if viewer is None:
                    return self._ask_to_log_in(request)
                if request.method == "POST":
                    check_origin(request)
                    check_form(request, form, viewer)
                return await handler(request, viewer, form)
            except Exception as error:  # noqa: BLE001  # the page of it keeps the frame, and is logged
                return self._explain(request, error, viewer)

        return endpoint

    async def _find_viewer(self, request: Request) -> Viewer | None:
        session = read_cookie(request, "session")
        if not session:
            return None
        return await login.find_viewer(self._dependencies, session, now=time.time())

    async def _show(
        self, screen: Screen, view: View, request: Request, viewer: Viewer, form: Form
    ) -> Response:
        page_request = await self._build_request(request, viewer)
        content = add_exports(page_request, await view(page_request))
        return await self._respond(content, viewer, screen, request)

    async def _do(self, screen: Screen, act: Act, request: Request, viewer: Viewer, form: Form) -> Response:
        outcome = await act(await self._build_request(request, viewer), form)
        if isinstance(outcome, ScreenPage):
            return await self._respond(outcome, viewer, screen, request)
        return _redirect(outcome, request)

    async def _build_request(self, request: Request, viewer: Viewer) -> PageRequest:
        async with self._dependencies.reader.read_briefly() as tx:
            output_unit = await counter_readings.find_output_unit(tx)
        return PageRequest(
            path=quote(request.url.path),
            parts=request.path_params,
            query=dict(request.query_params),
            viewer=viewer,
            now=time.time(),
            dependencies=self._dependencies,
            check_session=partial(
                login.check_session, dependencies=self._dependencies, session=read_cookie(request, "session")
            ),
            output_unit=output_unit,
        )

    async def _respond(
        self, content: Content | Download, viewer: Viewer, screen: Screen, request: Request
    ) -> Response:
        if isinstance(content, Fragment):
            return HTMLResponse(await render(h.fragment[content.body]))
        if isinstance(content, Download):
            disposition = f'attachment; filename="canvasgram-{content.name}"'
            headers = {"content-disposition": disposition, "content-type": content.media_type}
            return Response(content.text, headers=headers)
        note = unquote(read_cookie(request, "note"))[:MAX_NOTE_CHARACTERS]
        page = self._frame.show(content, viewer, screen, request.url.path, note)
        response = HTMLResponse(await render(page))
        if note:
            set_cookie(response, request, "note", "", seconds=0)
        return response

    async def _open_first(self, request: Request, viewer: Viewer, form: Form) -> Response:
        return RedirectResponse(self._screens[0].path, 303)

    async def _show_link(self, request: Request) -> Response:
        name = await login.find_invited(self._dependencies, request.path_params["link"], now=time.time())
        if name is None:
            return self._refuse_link(request)
        button = h.form(method="post")[h.button[f"Log in as {cut(name)}"]]
        hint = h.p["The link works once. You stay logged in for twelve hours, or until you log out."]
        return HTMLResponse(self._frame.show_bare("Log in", button, hint))

    async def _log_in(self, request: Request) -> Response:
        check_origin(request)
        try:
            session = await login.log_in(self._dependencies, request.path_params["link"], now=time.time())
        except StoreBusy:
            hint = h.p["Try again in a moment; your link still works."]
            return HTMLResponse(self._frame.show_bare("The database is busy", hint), 503)
        if session is None:
            return self._refuse_link(request)
        response = RedirectResponse(f"{ADMIN_PATH}/", 303)
        set_cookie(response, request, "session", session, seconds=SESSION_HOURS * 3600)
        return response

    def _refuse_link(self, request: Request) -> Response:
        """Refuse a wrong link, with 429 once a client has tried many. Right ones work still."""
        client = request.client.host if request.client else ""
        if not self._wrong_links.try_acquire(client, time.time()):
            return HTMLResponse(
                self._frame.show_bare("Wait a minute", h.p["Too many links were wrong."]), 429
            )
        return HTMLResponse(self._frame.show_bare("This link does not work", h.p[_LINK_GONE]), 403)

    async def _log_out(self, request: Request, viewer: Viewer, form: Form) -> Response:
        await login.log_out(self._dependencies, read_cookie(request, "session"), viewer, now=time.time())
        response = HTMLResponse(self._frame.show_bare("Logged out", h.p["You can close this page."]))
        set_cookie(response, request, "session", "", seconds=0)
        return response

    def _ask_to_log_in(self, request: Request) -> Response:
        headers = {"hx-refresh": "true"}  # a fragment's page is loaded again, and then says this, too
        page = self._frame.show_bare(
            "Log in",
            not read_cookie(request, "session") and _show_reload(request),
            h.p["Write ", h.code["/admin"], " to the bot, in your private chat: it sends you a link."],
            h.p["On the machine of the gateway, ", h.code["canvasgram admin --link"], " prints one."],
        )
        return HTMLResponse(page, 401, headers)

    async def _show_error(self, request: Request, error: Exception) -> Response:
        return self._explain(request, error, None)

    def _explain(self, request: Request, error: Exception, viewer: Viewer | None) -> Response:
        """An error as a page, or for htmx as what stands in the place of a fragment."""
        status, title, text = describe_error(error)
        if "hx-request" in request.headers:
            return HTMLResponse(str(h.p(".error", role="alert")[text]), status)
        if viewer is None:
            return HTMLResponse(self._frame.show_bare(title, h.p[text]), status)
        error_line = h.p(".error", role="alert", tabindex="-1", autofocus=True)[text]
        body = [error_line, _show_way_back(request)]
        page = self._frame.show(ScreenPage(title, body), viewer, None, request.url.path)
        return HTMLResponse(str(page), status)


async def render(element: h.Renderable) -> str:
    """Write an element out as HTML, in steps between which replies go on: a long table takes 0.2 s."""
    chunks: list[str] = []
    step_end = time.monotonic() + RENDER_STEP_SECONDS
    for chunk in element.iter_chunks():
        chunks.append(chunk)
        if time.monotonic() >= step_end:
            await asyncio.sleep(0)
            step_end = time.monotonic() + RENDER_STEP_SECONDS
    return "".join(chunks)


async def read_form(request: Request) -> Mapping[str, str]:
    """The fields of a form; of several with the same name the last.

    Raises PageRefused for one that is large, or does not come in time.
    """
    try:
        async with asyncio.timeout(FORM_SECONDS):
            body = await _read_body(request)
    except TimeoutError:
        raise PageRefused("This form did not come in time. Send it again.", status=408) from None
    try:
        text = body.decode("utf-8")
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS))
    except ValueError:
        raise PageRefused("This form cannot be read.", status=400) from None


async def _read_body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise PageRefused("This form is too large.", status=413)
    return body


def _show_reload(request: Request) -> h.Element:
    """A way in for who is logged in and came by a link of another site: the cookie is held back then."""
    return h.p[
        "If you are logged in already, ",
        h.a(href=build_url(request.url.path, request.query_params))["open this page from here"],
        ".",
    ]


def _show_way_back(request: Request) -> h.Node:
    """From an error page: to the form that was refused, to the page without filters, or to another one."""
    if request.method == "GET":
        path = request.url.path
        if request.url.query:
            return h.p[h.a(href=quote(path))["Open this page without filters"]]
        if path.startswith(f"{ADMIN_PATH}/turn/"):
            return h.p[h.a(href=f"{ADMIN_PATH}/turns")["All turns"]]
        return h.p[h.a(href=f"{ADMIN_PATH}/")["To the first page"]]
    form_page = urlsplit(request.headers.get("referer", ""))
    if not form_page.path.startswith(f"{ADMIN_PATH}/"):
        return None
    return h.p[h.a(href=form_page._replace(scheme="", netloc="").geturl())["Back to the form"]]


def _redirect(redirect: Redirect, request: Request) -> Response:
    response = RedirectResponse(redirect.path, 303)
    if redirect.note:
        note = quote(redirect.note[:MAX_NOTE_CHARACTERS])
        set_cookie(response, request, "note", note, seconds=30)
    return response
