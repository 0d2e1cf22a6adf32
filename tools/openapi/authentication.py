"""How a service wants to be shown who calls it, by the `securitySchemes` of its document. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

AuthKind = Literal["header", "query", "cookie", "bearer", "basic", "oauth", "other"]
MAX_NAME_CHARS = 60


@dataclass(frozen=True, slots=True)
class AuthRequirement:
    """One way to authenticate; `name` is that of the header, query parameter or cookie, `text` some words."""

    kind: AuthKind
    name: str
    text: str


def read_auth_needs(schemes: Iterable[Mapping[str, Any]]) -> list[AuthRequirement]:
    """What these security schemes ask for, each once."""
    return sorted({_read_scheme(scheme) for scheme in schemes if scheme}, key=lambda need: need.text)


def find_secret_parameters(schemes: Iterable[Mapping[str, Any]]) -> frozenset[tuple[str, str]]:
    """Location and name of the parameters that carry a key; the names of headers in small letters."""
    return frozenset(
        locate_parameter(str(scheme.get("in")), str(scheme.get("name")))
        for scheme in schemes
        if scheme.get("type") == "apiKey"
    )


def locate_parameter(location: str, name: str) -> tuple[str, str]:
    """Location and name of a parameter, as `find_secret_parameters` writes them."""
    if location == "header":
        return location, name.lower()
    return location, name


def _read_scheme(scheme: Mapping[str, Any]) -> AuthRequirement:
    kind = scheme.get("type")
    location = scheme.get("in")
    http_scheme = str(scheme.get("scheme")).lower()
    name = str(scheme.get("name"))[:MAX_NAME_CHARS]
    if kind == "apiKey" and location in ("header", "query", "cookie"):
        return AuthRequirement(location, name, f"a key in the {location} `{name}`")
    if kind == "http" and http_scheme == "bearer":
        return AuthRequirement("bearer", "Authorization", "a token as Bearer")
    if kind == "http" and http_scheme == "basic":
        return AuthRequirement("basic", "Authorization", "a name and a password")
    if kind in ("oauth2", "openIdConnect"):
        text = "a token as Bearer, which you have to obtain yourself (OAuth)"
        return AuthRequirement("oauth", "Authorization", text)
    detail = str(location or scheme.get("scheme") or "")
    return AuthRequirement("other", "", f"something that cannot be shown ({str(kind)[:20]} {detail[:20]})")
