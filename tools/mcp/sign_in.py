"""What a sign-in at an MCP server gave, what its page sends back, and where it is kept. Pure.

`oauth` makes and renews sign-ins with the SDK; who keeps them decides how they are sealed.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

MAX_FIELDS = 50  # of the address of a page


@dataclass(frozen=True, slots=True)
class SignIn:
    """Tokens for one server, and what is needed to renew them; the JSON is as OAuth has it.

    `renew_at` is when the access token should be renewed (epoch seconds; None: when it is refused).
    `client`, `authorization_server` and `resource` are what was registered and discovered.
    """

    url: str
    signed_in_at: float
    tokens: Mapping[str, Any]
    renew_at: float | None
    client: Mapping[str, Any]
    authorization_server: Mapping[str, Any] | None = None
    resource: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        return f"SignIn(at {self.url})"

    def as_text(self) -> str:
        """Write it as one text, to be sealed."""
        return json.dumps(asdict(self))

    def list_secrets(self) -> list[str]:
        """List what must never be shown."""
        values = (
            self.tokens.get("access_token"),
            self.tokens.get("refresh_token"),
            self.client.get("client_secret"),
        )
        return [value for value in values if value]


def parse_sign_in(text: str) -> SignIn:
    """Read what `as_text` wrote. Raises ValueError or TypeError for anything else."""
    return SignIn(**json.loads(text))


class SignInDialog(Protocol):
    """Talks with the person who signs in."""

    async def show_link(self, link: str) -> None:
        """Show the link of the page where they sign in."""
        ...

    async def wait_for_answer(self) -> "SignInAnswer":
        """Wait for what that page sends back. May raise ToolError to give up."""
        ...


@dataclass(frozen=True, slots=True)
class SignInAnswer:
    """What the page of a sign-in sent back: a code, or an `error`; `state` names the sign-in."""

    state: str
    code: str = field(default="", repr=False)
    issuer: str | None = None
    error: str | None = None


def find_state(address: str) -> str:
    """The state in the address of a sign-in's page, or in the one that it leads to; empty without one."""
    return _parse_query(address).get("state", "")


def parse_answer(address: str) -> SignInAnswer | None:
    """Read the address that the page of a sign-in leads to; None if it is none."""
    fields = _parse_query(address)
    if "state" not in fields or not fields.keys() & {"code", "error"}:
        return None
    return SignInAnswer(fields["state"], fields.get("code", ""), fields.get("iss"), fields.get("error"))


def _parse_query(address: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(urlsplit(address.strip()).query, max_num_fields=MAX_FIELDS))
    except ValueError:
        return {}


class SignInStore(Protocol):
    """Keeps the sign-in of one server.

    `secret_texts` are the tokens that it has given out or was given: they are masked like other secrets.
    """

    secret_texts: frozenset[str]

    async def load(self) -> SignIn | None:
        """The sign-in as it is kept now; another process may have renewed it."""
        ...

    async def save(self, sign_in: SignIn) -> None:
        """Keep a renewed sign-in in place of the one before."""
        ...
