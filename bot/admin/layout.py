"""The frame of all pages: navigation, heading, who is logged in, and whose time zone it is. Pure."""

import json
from collections.abc import Sequence

import htpy as h

from bot.admin.components import cut
from bot.admin.page_request import Screen, ScreenPage, Viewer
from bot.admin.static_files import StaticFiles
from bot.admin.svg_chart import draw_hatch
from bot.db.people.page_sessions import ADMIN_PATH

# htmx writes no inline styles and runs nothing of an attribute: the content security policy forbids both.
_HTMX_SETTINGS = json.dumps(
    {
        "includeIndicatorStyles": False,
        "allowEval": False,
        "allowScriptTags": False,
        "historyCacheSize": 0,
        "responseHandling": [
            {"code": "204", "swap": False},
            {"code": "502|504", "swap": False, "error": True},  # by a proxy, of a gateway that is away
            {"code": ".*", "swap": True},
        ],
    }
)
_STYLES = ("palette.css", "page.css")
_SCRIPTS = ("htmx.min.js", "page.js")


class PageFrame:
    """Puts pages into their frame; `screens` are in the order of the navigation."""

    def __init__(self, screens: Sequence[Screen], files: StaticFiles) -> None:
        self._screens = [screen for screen in screens if screen.title]
        self._files = files

    def show(
        self, page: ScreenPage, viewer: Viewer, screen: Screen | None, path: str, note: str = ""
    ) -> h.Element:
        """The whole page at `path` of a screen (None: of none); `note` is what an act has just done."""
        log_out = h.form(method="post", action=f"{ADMIN_PATH}/logout")[
            h.input(type="hidden", name="csrf", value=viewer.csrf_token),
            h.button(".plain")["Log out"],
        ]
        body = (
            draw_hatch(),
            h.a(".skip", href="#content")["Skip to the content"],
            h.header[
                h.a(".brand", href=f"{ADMIN_PATH}/", tabindex="-1")["Canvasgram"],
                self._show_navigation(screen, path),
            ],
            h.main("#content", tabindex="-1")[
                h.h1[page.title], note and h.p(".note", role="status")[note], page.body
            ],
            h.footer[
                h.div[f"Times are those of {viewer.zone.key}."],
                h.div[f"Logged in as {cut(viewer.name)}. ", log_out],
            ],
        )
        token = json.dumps({"X-CSRF-Token": viewer.csrf_token})
        return self._show_document(page, h.body(hx_headers=token, data_zone=viewer.zone.key)[body])

    def show_bare(self, title: str, *children: h.Node) -> str:
        """A page for somebody who is not logged in."""
        body = h.body(".bare")[h.main("#content")[h.p(".brand")["Canvasgram"], h.h1[title], children]]
        return str(self._show_document(ScreenPage(title, None), body))

    def _show_document(self, page: ScreenPage, body: h.Element) -> h.Element:
        head = h.head[
            h.meta(charset="utf-8"),
            h.meta(name="viewport", content="width=device-width, initial-scale=1"),
            h.meta(name="color-scheme", content="light dark"),
            h.meta(name="robots", content="noindex"),
            h.meta(name="htmx-config", content=_HTMX_SETTINGS),
            h.title[f"{page.title} · Canvasgram"],
            h.link(rel="icon", href=self._files.build_url("icon.svg")),
            (h.link(rel="stylesheet", href=self._files.build_url(name)) for name in _STYLES),
            (h.script(src=self._files.build_url(name), defer=True) for name in _SCRIPTS),
        ]
        return h.html(lang="en")[head, body]

    def _show_navigation(self, current: Screen | None, path: str) -> h.Element:
        """Links to the screens; to the page itself only for the mouse, so that rows are fewer keys away."""
        items = (
            h.li[
                h.a(
                    href=screen.path,
                    aria_current=_name_current(screen, current, path),
                    tabindex="-1" if screen.path == path else None,
                )[screen.title]
            ]
            for screen in self._screens
        )
        return h.nav(aria_label="Screens")[h.ul[items]]


def _name_current(screen: Screen, current: Screen | None, path: str) -> str | None:
    """Whether a screen is the page, or has it below."""
    if screen.path == path:
        return "page"
    return "true" if current is not None and screen.place == current.place else None
