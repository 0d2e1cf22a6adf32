"""An OAuth authorization server made of the SDK's parts, and an MCP server behind it, each on its own port.

Pages of a sign-in answer at once, as if somebody had agreed there. What is misconfigured is what the fields
say.
"""

import contextlib
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from bot.http_server import serve
from tests.support.mcp_http_server import FakeMcpHttpServer


class FakeAuthorizationServer:
    """Gives codes and tokens; `tokens` are the access tokens that hold, each with its client."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, str] = {}
        self.refresh_tokens: dict[str, RefreshToken] = {}
        self.expires_in: int | None = 3600
        self.code_seconds = 60.0
        self.renewals = 0
        self.resources: list[str | None] = []

    def revoke_access(self) -> None:
        """Make all access tokens invalid; they can be renewed."""
        self.tokens.clear()

    def revoke_all(self) -> None:
        """Make the sign-in invalid."""
        self.tokens.clear()
        self.refresh_tokens.clear()

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        self.resources.append(params.resource)
        code = AuthorizationCode(
            code=f"code-{secrets.token_urlsafe(24)}",
            scopes=params.scopes or [],
            expires_at=time.time() + self.code_seconds,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(client.client_id)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refresh_tokens.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        if self.refresh_tokens.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant")
        self.renewals += 1
        return self._issue(client.client_id)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return None  # the MCP server looks into `tokens`

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        """Not offered."""

    def _issue(self, client_id: str) -> OAuthToken:
        access = f"access-{secrets.token_urlsafe(24)}"
        refresh = f"refresh-{secrets.token_urlsafe(24)}"
        self.tokens[access] = client_id
        self.refresh_tokens[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=[])
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=self.expires_in)


@dataclass
class OAuthMcpServer:
    """Both servers, running. `resource_metadata` is added to what the MCP server says of itself.

    `is_overloaded`: the authorization server answers nothing but 503.
    """

    mcp: FakeMcpHttpServer
    authorization: FakeAuthorizationServer
    url: str = ""
    issuer: str = ""
    resource_metadata: dict[str, Any] = field(default_factory=dict)
    server_metadata: dict[str, Any] = field(default_factory=dict)
    seen_tokens: list[str] = field(default_factory=list)
    is_overloaded: bool = False

    async def agree(self, link: str) -> str:
        """Open the page of a sign-in and agree; the address that the browser is sent to."""
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            response = await client.get(link, follow_redirects=False)
        assert response.status_code == 302, response.text
        return response.headers["location"]


@contextlib.asynccontextmanager
async def running_oauth_server(*, can_register: bool = True) -> AsyncIterator[OAuthMcpServer]:
    servers = OAuthMcpServer(FakeMcpHttpServer(read_only=True), FakeAuthorizationServer())
    async with contextlib.AsyncExitStack() as stack:
        late_app = _LateApp(servers)
        servers.issuer = f"{await stack.enter_async_context(serve(late_app))}/"
        late_app.app = _build_authorization_app(servers, can_register=can_register)
        resource_url = await stack.enter_async_context(serve(_build_resource_app(servers)))
        servers.url = f"{resource_url}/mcp"
        yield servers


class _LateApp:
    """An app that is built once its own address is known."""

    app: ASGIApp

    def __init__(self, servers: OAuthMcpServer) -> None:
        self._servers = servers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = Response(status_code=503) if self._servers.is_overloaded else self.app
        await answer(scope, receive, send)


def _build_authorization_app(servers: OAuthMcpServer, *, can_register: bool) -> ASGIApp:
    routes = create_auth_routes(
        servers.authorization,  # type: ignore[arg-type]
        AnyHttpUrl(servers.issuer),
        client_registration_options=ClientRegistrationOptions(enabled=can_register),
    )
    metadata_path = "/.well-known/oauth-authorization-server"
    inner = Starlette(routes=routes)

    async def describe(request: Request) -> Response:
        transport = httpx.ASGITransport(inner)
        async with httpx.AsyncClient(transport=transport, base_url=servers.issuer) as client:
            metadata = (await client.get(metadata_path)).json()
        return JSONResponse({**metadata, **servers.server_metadata})

    return Starlette(routes=[Route(metadata_path, describe), Mount("/", inner)])


def _build_resource_app(servers: OAuthMcpServer) -> ASGIApp:
    async def describe(request: Request) -> Response:
        metadata = {"resource": servers.url, "authorization_servers": [servers.issuer]}
        return JSONResponse({**metadata, **servers.resource_metadata})

    path = "/.well-known/oauth-protected-resource/mcp"
    return Starlette(routes=[Route(path, describe), Mount("/", _TokenGate(servers, path))])


class _TokenGate:
    """Lets requests with a token that holds through to the MCP server."""

    def __init__(self, servers: OAuthMcpServer, metadata_path: str) -> None:
        self._servers = servers
        self._metadata_path = metadata_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        token = headers.get(b"authorization", b"").decode().removeprefix("Bearer ")
        if token:
            self._servers.seen_tokens.append(token)
        if token in self._servers.authorization.tokens:
            await self._servers.mcp.app(scope, receive, send)
            return
        origin = self._servers.url.removesuffix("/mcp")
        challenge = f'Bearer resource_metadata="{origin}{self._metadata_path}"'
        await Response(status_code=401, headers={"www-authenticate": challenge})(scope, receive, send)
