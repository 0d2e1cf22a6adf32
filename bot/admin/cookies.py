"""The page's cookies: of each address its own, for a browser sends a host's cookies to every port there.

Behind TLS their names begin with `__Host-`, so that no neighbour under the same domain can set them. They are
for the request's `admin_origin`, which AddressGuard has checked.
"""

from typing import Literal
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from bot.db.people.page_sessions import ADMIN_PATH

CookiePurpose = Literal["session", "note"]


def name_cookie(origin: str, purpose: CookiePurpose) -> str:
    """The name of a cookie of the page at this origin."""
    address = urlsplit(origin)
    if address.scheme == "https":
        return f"__Host-canvasgram-{purpose}-{address.port or 443}"
    return f"canvasgram-{purpose}-{address.port or 80}"


def read_cookie(request: Request, purpose: CookiePurpose) -> str:
    """What the browser sent; empty if it has no such cookie."""
    return request.cookies.get(name_cookie(request.scope["admin_origin"], purpose), "")


def set_cookie(
    response: Response, request: Request, purpose: CookiePurpose, value: str, *, seconds: int
) -> None:
    """Have the browser keep a cookie; for 0 seconds: forget it."""
    origin = request.scope["admin_origin"]
    is_secure = origin.startswith("https:")
    response.set_cookie(
        name_cookie(origin, purpose),
        value,
        max_age=seconds,
        path="/" if is_secure else ADMIN_PATH,  # as browsers require for `__Host-`
        secure=is_secure,
        httponly=True,
        samesite="strict",
    )
