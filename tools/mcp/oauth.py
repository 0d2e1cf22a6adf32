"""OAuth 2.1 at MCP servers, through the SDK: signs in with a person's help, and renews what that gave.

The SDK discovers, registers, checks state, issuer and resource, and speaks to the token endpoint. Its
requests go through the network policy like all others, and never unencrypted to a public host. Nothing here
logs or words what was sent.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx
import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp_types import LATEST_PROTOCOL_VERSION
from pydantic import AnyUrl, BaseModel, ValidationError

from tools.base import ToolError
from tools.mcp.errors import AddressNotAllowed, describe_error
from tools.mcp.http import create_client
from tools.mcp.location import ServerUrl
from tools.mcp.open_calls import FailedCall, capture_outcome
from tools.mcp.sign_in import SignIn, SignInDialog, SignInStore
from tools.net.policy import ENCRYPTION_ADVICE, NetworkPolicy, host_of, port_of

CLIENT_NAME = "Canvasgram"
RENEWAL_MARGIN_SECONDS = 60.0  # before an access token ends; of a short one, half its time
REQUEST_SECONDS = 30.0  # of one request of a sign-in


@dataclass(frozen=True, slots=True)
class RegisteredClient:
    """A client that was registered at the authorization server beforehand, instead of by the SDK."""

    client_id: str
    client_secret: str | None = None


async def sign_in(
    server: ServerUrl,
    redirect_url: str,
    dialog: SignInDialog,
    client: RegisteredClient | None = None,
) -> SignIn:
    """Sign in at a server. Raises ToolError with the reason, in words for an admin."""
    flow = _SignInFlow(server, redirect_url, dialog, client)
    try:
        return await flow.run()
    except OAuthRegistrationError as error:
        raise ToolError(flow.explain_no_client()) from error
    except OAuthTokenError as error:
        raise ToolError("Its sign-in refused the code: it may be too old, or used already.") from error
    except OAuthFlowError as error:
        raise ToolError(flow.explain_mismatch()) from error
    except (ValidationError, UnicodeError) as error:
        raise ToolError("What it says about its sign-in cannot be read.") from error
    except (httpx2.HTTPError, httpx2.StreamError, TimeoutError) as error:
        raise ToolError(f"The sign-in failed: {describe_error(error)}.") from error


class _SignInFlow:
    """One sign-in."""

    def __init__(
        self,
        server: ServerUrl,
        redirect_url: str,
        dialog: SignInDialog,
        client: RegisteredClient | None,
    ) -> None:
        self._server = server
        self._policy = NetworkPolicy(private=server.private)
        self._redirect_url = redirect_url
        self._dialog = dialog
        self._has_shown_link = False
        self._storage = _MemoryStorage()
        if client is not None:
            self._storage.client_info = OAuthClientInformationFull(
                client_id=client.client_id,
                client_secret=client.client_secret,
                redirect_uris=[AnyUrl(redirect_url)],
            )
        self._provider = OAuthClientProvider(
            server.url,
            OAuthClientMetadata(client_name=CLIENT_NAME, redirect_uris=[AnyUrl(redirect_url)]),
            self._storage,
            redirect_handler=self._check_and_show_link,
            callback_handler=self._get_code,
        )

    async def run(self) -> SignIn:
        async with await create_client(self._server) as client:
            probe = _build_probe(client, self._server.url)
            async with contextlib.aclosing(self._provider.async_auth_flow(probe)) as flow:
                request = await anext(flow)
                while self._storage.tokens is None:
                    response = await _send(client, request, self._policy)
                    if request is probe and response.status_code != httpx2.codes.UNAUTHORIZED:
                        raise ToolError("The server does not ask for a sign-in.")
                    request = await flow.asend(response)
        context = self._provider.context
        assert context.client_info is not None
        return SignIn(
            self._server.url,
            time.time(),
            _dump(self._storage.tokens),
            _find_renewal_time(self._storage.tokens),
            _dump(context.client_info),
            _dump(context.oauth_metadata) if context.oauth_metadata else None,
            _dump(context.protected_resource_metadata) if context.protected_resource_metadata else None,
        )

    def explain_no_client(self) -> str:
        """What to do where no client could be registered."""
        context = self._provider.context
        if context.oauth_metadata is None and context.protected_resource_metadata is None:
            return (
                "It wants a key, and offers no usable sign-in: keep the key on the machine with `canvasgram "
                "tools secret set token`, then add it with --header 'Authorization: Bearer {token}'"
            )
        return (
            "Its sign-in does not register new clients. Register one there with the address "
            f"{self._redirect_url}, and name it on the machine: canvasgram tools add --help, --client-id"
        )

    def explain_mismatch(self) -> str:
        """Why the SDK does not trust what it received."""
        if self._has_shown_link:
            return "What came back does not belong to this sign-in."
        return "What the server says about its sign-in does not fit together, so it is not trusted."

    async def _check_and_show_link(self, link: str) -> None:
        """Show the link, unless it would lead a person's browser where the gateway does not go."""
        url = httpx.URL(link)
        _check_encrypted(self._policy, url)
        try:
            await self._policy.resolve_allowed(url.raw_host.decode().strip("[]"), port_of(url))
        except ToolError as error:
            raise AddressNotAllowed(str(error).rstrip(".")) from error
        self._choose_auth_method()
        self._has_shown_link = True
        await self._dialog.show_link(link)

    async def _get_code(self) -> AuthorizationCodeResult:
        answer = await self._dialog.wait_for_answer()
        if answer.error is not None:
            raise ToolError("The sign-in was declined on its page.")
        return AuthorizationCodeResult(code=answer.code, state=answer.state, iss=answer.issuer)

    def _choose_auth_method(self) -> None:
        """Set how a client that was registered beforehand shows its secret: the SDK asks only for its own."""
        context = self._provider.context
        client = context.client_info
        if client is None or client.token_endpoint_auth_method or client.client_secret is None:
            return
        metadata = context.oauth_metadata
        # What a server takes that does not say it, by RFC 8414.
        methods = (metadata and metadata.token_endpoint_auth_methods_supported) or ["client_secret_basic"]
        is_basic = "client_secret_basic" in methods
        client.token_endpoint_auth_method = "client_secret_basic" if is_basic else "client_secret_post"


class RenewingAuth(httpx2.Auth):
    """Sends the access token of a sign-in, renewed before it ends, and once when the server refuses it.

    Without `store` it sends none. `on_refused` is called when somebody has to sign in. A renewal runs in
    `tasks`: the refresh token is spent by it, so a cancelled call must not end it. One that fails is an error
    only where the server refuses the old token.
    """

    def __init__(
        self,
        server: ServerUrl,
        store: SignInStore | None,
        on_refused: Callable[[], None],
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._server = server
        self._store = store
        self._on_refused = on_refused
        self._tasks = tasks
        self._lock = asyncio.Lock()
        self._sign_in: SignIn | None = None
        self._lost_token: str | None = None  # it cannot be renewed, and is not tried again

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        token = await self._load_token()
        response = yield _with_token(request, token)
        if response.status_code == httpx2.codes.UNAUTHORIZED and token is not None:
            renewed_token = await self._renew_in_task(token)
            if isinstance(renewed_token, FailedCall):
                raise renewed_token.error
            if renewed_token is not None:
                response = yield _with_token(request, renewed_token)
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            self._on_refused()

    async def _load_token(self) -> str | None:
        """The access token, renewed if that is due and can be done; None: nobody has signed in."""
        if self._sign_in is None and self._store is not None:
            self._sign_in = await self._store.load()
        if self._sign_in is None:
            return None
        token: str = self._sign_in.tokens["access_token"]
        if self._sign_in.renew_at is not None and time.time() >= self._sign_in.renew_at:
            renewed_token = await self._renew_in_task(token)
            return renewed_token if isinstance(renewed_token, str) else token
        return token

    async def _renew_in_task(self, old_token: str) -> str | FailedCall | None:
        """Renew; an error is an outcome, since one of a task would end the connection for all."""
        renewal = capture_outcome(self._renew(old_token))
        return await asyncio.shield(self._tasks.create_task(renewal, name="renew sign-in"))

    async def _renew(self, old_token: str) -> str | None:
        """Another token than `old_token`; None: it cannot be renewed."""
        assert self._store is not None
        async with self._lock:
            # Another call may have renewed it, or another process.
            self._sign_in = await self._store.load()
            if self._sign_in is None:
                return None
            token: str = self._sign_in.tokens["access_token"]
            if token != old_token:
                return token
            if token == self._lost_token:
                return None
            renewed = await _renew_sign_in(self._server, self._sign_in)
            if renewed is None:
                self._lost_token = token
                return None
            await self._store.save(renewed)
            self._sign_in = renewed
            renewed_token: str = renewed.tokens["access_token"]
            return renewed_token


async def _renew_sign_in(server: ServerUrl, sign_in: SignIn) -> SignIn | None:
    """The sign-in with new tokens; None if it cannot be renewed.

    Raises httpx2.HTTPError when the authorization server does not answer.
    """
    storage = _MemoryStorage(
        OAuthToken.model_validate(sign_in.tokens), OAuthClientInformationFull.model_validate(sign_in.client)
    )
    metadata = OAuthClientMetadata(redirect_uris=[AnyUrl(server.url)])
    provider = OAuthClientProvider(server.url, metadata, storage)
    context = provider.context
    context.token_expiry_time = 1.0  # long over, so that the SDK renews it
    if sign_in.authorization_server is not None:
        context.oauth_metadata = OAuthMetadata.model_validate(sign_in.authorization_server)
    if sign_in.resource is not None:
        context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(sign_in.resource)
    async with await create_client(server) as client:
        probe = _build_probe(client, server.url)
        async with contextlib.aclosing(provider.async_auth_flow(probe)) as flow:
            request = await anext(flow)
            if request is probe:
                return None  # there is no refresh token
            response = await _send(client, request, NetworkPolicy(private=server.private))
            if response.is_server_error or response.status_code == httpx2.codes.TOO_MANY_REQUESTS:
                raise httpx2.ConnectError("the authorization server does not answer")
            await flow.asend(response)
    if context.current_tokens is None:
        return None
    return replace(
        sign_in,
        tokens=_dump(context.current_tokens),
        renew_at=_find_renewal_time(context.current_tokens),
    )


class _MemoryStorage:
    """Tokens and client of one flow of the SDK; the caller keeps them."""

    def __init__(
        self, tokens: OAuthToken | None = None, client_info: OAuthClientInformationFull | None = None
    ) -> None:
        self.tokens = tokens
        self.client_info = client_info

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client_info = client_info


async def _send(
    client: httpx2.AsyncClient, request: httpx2.Request, policy: NetworkPolicy
) -> httpx2.Response:
    """Send one request of a sign-in; what comes back is read, unless it is a long answer of the server."""
    _check_encrypted(policy, httpx.URL(str(request.url)))
    async with asyncio.timeout(REQUEST_SECONDS):
        response = await client.send(request, stream=True, follow_redirects=False)
        if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            await response.aclose()
        else:
            await response.aread()
    return response


def _check_encrypted(policy: NetworkPolicy, url: httpx.URL) -> None:
    """Raise AddressNotAllowed for an address to which codes and tokens would go unencrypted."""
    if url.scheme not in {"http", "https"} or policy.can_expose_secrets(url):
        raise AddressNotAllowed(f"{host_of(url)} would get codes and tokens unencrypted: {ENCRYPTION_ADVICE}")


def _build_probe(client: httpx2.AsyncClient, url: str) -> httpx2.Request:
    """A first message to the server, which it answers with 401 and where its sign-in is."""
    info = {"name": CLIENT_NAME.lower(), "version": "0.1"}
    params = {"protocolVersion": LATEST_PROTOCOL_VERSION, "capabilities": {}, "clientInfo": info}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    headers = {"Accept": "application/json, text/event-stream"}
    return client.build_request("POST", url, json=message, headers=headers)


def _with_token(request: httpx2.Request, token: str | None) -> httpx2.Request:
    if token is not None:
        request.headers["Authorization"] = f"Bearer {token}"
    return request


def _find_renewal_time(tokens: OAuthToken) -> float | None:
    if tokens.expires_in is None:
        return None
    return time.time() + tokens.expires_in - min(RENEWAL_MARGIN_SECONDS, tokens.expires_in / 2)


def _dump(model: BaseModel) -> Mapping[str, Any]:
    return model.model_dump(mode="json", exclude_none=True)
