"""How an HTTP service is reached: secrets, arguments that are always the same, and where its server is.

An admin says it on the command line or in a chat, in the same words. Kept in the options of a source
(`secrets`, `fixed`, `server`), where secrets stand by name; `build_http_service` fills them in.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from bot.db.tools.sources import Source
from bot.errors import ChangeRefused
from bot.tool_registry.secret_references import fill_secrets, find_secret_names, remove_references
from bot.tool_registry.secret_scanner import has_known_key, has_likely_secret, is_secret_name
from bot.translations.translator import defer, translatable
from tools.http.styles import HEADER_NAME_PATTERN, SENDER_HEADERS

if TYPE_CHECKING:
    from tools.http.service import HttpService
    from tools.openapi.servers import ServerSettings

_SEPARATORS = {"header": ":", "query": "=", "cookie": "=", "set": "=", "variable": "="}
_FIELDS = {
    "header": "headers",
    "query": "query",
    "cookie": "cookies",
    "set": "fixed",
    "variable": "variables",
}
ACCESS_OPTIONS = (*_SEPARATORS, "basic", "base-url")
SECRET_ADVICE = translatable("Store it with `canvasgram tools secret set NAME` and write {NAME} here.")


@dataclass(frozen=True, slots=True)
class ServiceAccess:
    """What an admin says about a service; a secret stands in each value by its name, as `{name}`.

    `basic` is `name:password`. `fixed` are arguments that have the same value in every call. `base_url` and
    `variables` say where the server of a document is. As a change, an empty value removes what is set.
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)
    basic: str | None = None
    fixed: Mapping[str, str] = field(default_factory=dict)
    base_url: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self != ServiceAccess()

    @property
    def texts(self) -> list[str]:
        """All values."""
        mappings = (self.headers, self.query, self.cookies, self.fixed, self.variables)
        texts = [text for mapping in mappings for text in mapping.values()]
        return [*texts, self.basic or "", self.base_url or ""]


def parse_access(items: Iterable[tuple[str, str]]) -> ServiceAccess:
    """Parse options, each the name and the text of one of ACCESS_OPTIONS. Raises ChangeRefused."""
    values: dict[str, Any] = {}
    for option, text in items:
        if option in _SEPARATORS:
            name, value = parse_pair(option, text, _SEPARATORS[option])
            values.setdefault(_FIELDS[option], {})[name] = value
        else:
            values[option.replace("-", "_")] = text.strip()
    return ServiceAccess(**values)


def parse_pair(option: str, text: str, separator: str) -> tuple[str, str]:
    """Parse `name: value` or `name=value`. Raises ChangeRefused."""
    name, has_separator, value = text.partition(separator)
    if not has_separator or not name.strip():
        raise ChangeRefused(
            "Write {option} as NAME{separator} VALUE, with {name} in place of a secret.",
            option=option,
            separator=separator,
            name="{name}",
        )
    return name.strip(), value.strip()


def update_access(before: ServiceAccess, changes: ServiceAccess) -> ServiceAccess:
    """The access with these changes; an empty value removes what had the name, None keeps it."""
    values: dict[str, Any] = {}
    for each in fields(before):
        old = getattr(before, each.name)
        new = getattr(changes, each.name)
        if isinstance(old, Mapping):
            values[each.name] = {name: text for name, text in {**old, **new}.items() if text}
        else:
            values[each.name] = (old if new is None else new) or None
    return ServiceAccess(**values)


def check_access(access: ServiceAccess) -> None:
    """Refuse headers that cannot be set, and secrets in what is stored in the open. Raises ChangeRefused."""
    check_headers(access.headers)
    for name in access.cookies:
        if not HEADER_NAME_PATTERN.fullmatch(name):
            raise ChangeRefused("{name} isn't a valid cookie name.", name=repr(name[:60]))
    for name, text in {**access.headers, **access.query, **access.cookies}.items():
        refuse_plain_secret(name, text)
    for name, text in {**access.fixed, **access.variables}.items():
        if has_known_key(text) or (is_secret_name(name) and not find_secret_names([text])):
            refuse_plain_secret(name, text, is_certain=True)
    person, has_colon, password = (access.basic or "").partition(":")
    if access.basic and not (person and has_colon and find_secret_names([password])):
        raise ChangeRefused(
            "Write basic as NAME:{KEY}, with the name of a secret for the password. {advice}",
            KEY="{KEY}",
            advice=defer(SECRET_ADVICE),
        )
    if access.base_url and has_known_key(access.base_url):
        refuse_plain_secret("base-url", access.base_url, is_certain=True)


def refuse_plain_secret(name: str, text: str, *, is_certain: bool = False) -> None:
    """Refuse a secret in what is stored unencrypted and shown in lists. Raises ChangeRefused."""
    is_unnamed = is_secret_name(name) and not find_secret_names([text])
    if is_certain or is_unnamed or has_likely_secret(remove_references(text)):
        raise ChangeRefused(
            "The value of {name} looks like a secret and would be stored unencrypted. {advice}",
            name=name,
            advice=defer(SECRET_ADVICE),
        )


def check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers if they can be sent with each call. Raises ChangeRefused for others."""
    for name, value in headers.items():
        if not HEADER_NAME_PATTERN.fullmatch(name) or name.lower() in SENDER_HEADERS:
            raise ChangeRefused("The header {name} can't be set.", name=repr(name[:60]))
        if not value.isascii() or not value.isprintable():
            raise ChangeRefused(
                "The value of {name} doesn't fit into a header: only plain ASCII does.", name=name[:60]
            )
    return dict(headers)


def read_access(options: Mapping[str, Any]) -> ServiceAccess:
    """What the options of a source say."""
    secrets = options.get("secrets", {})
    server = options.get("server", {})
    return ServiceAccess(
        headers=secrets.get("headers", {}),
        query=secrets.get("query", {}),
        cookies=secrets.get("cookies", {}),
        basic=secrets.get("basic") or None,
        fixed=options.get("fixed", {}),
        base_url=server.get("base_url") or None,
        variables=server.get("variables", {}),
    )


def write_access(access: ServiceAccess) -> dict[str, Any]:
    """The part of a source's options that `read_access` reads."""
    return {
        "secrets": {
            "headers": dict(access.headers),
            "query": dict(access.query),
            "cookies": dict(access.cookies),
            "basic": access.basic or "",
        },
        "fixed": dict(access.fixed),
        "server": {"base_url": access.base_url or "", "variables": dict(access.variables)},
    }


def list_access_lines(access: ServiceAccess) -> list[str]:
    """What is set, an option and its value a line, as an admin would write it."""
    lines = [
        f"{option} {name}{separator}{' ' if separator == ':' else ''}{text}"
        for option, separator in _SEPARATORS.items()
        for name, text in getattr(access, _FIELDS[option]).items()
    ]
    if access.basic:
        lines.append(f"basic {access.basic}")
    if access.base_url:
        lines.append(f"base-url {access.base_url}")
    return lines


def build_server_settings(access: ServiceAccess) -> "ServerSettings":
    """What the reader of a document is told about its server."""
    from tools.openapi.servers import ServerSettings

    return ServerSettings(access.base_url or "", dict(access.variables), tuple(access.cookies))


def build_http_service(
    source: Source, secrets: Mapping[str, str], private_hosts: frozenset[str]
) -> "HttpService":
    """The service of a source with its secrets filled in. Raises MissingSecret."""
    from tools.http.routes import SECRET_PLACEHOLDER
    from tools.http.service import TIMEOUT_SECONDS, Credentials, FixedArgument, HttpService
    from tools.net.policy import NetworkPolicy

    access = read_access(source.options)
    basic = None
    if access.basic:
        basic = fill_secrets({"": access.basic}, secrets)[""]
    credentials = Credentials(
        headers=fill_secrets(access.headers, secrets),
        query=fill_secrets(access.query, secrets),
        basic=basic,
        cookies=fill_secrets(access.cookies, secrets),
    )
    in_address = find_secret_names([access.base_url or "", *access.variables.values()])
    shown = {**access.fixed, **{f"{SECRET_PLACEHOLDER}{name}": f"{{{name}}}" for name in in_address}}
    filled = fill_secrets(shown, secrets)
    fixed = {
        name: FixedArgument(
            name, filled[name], text, tuple(secrets[each] for each in find_secret_names([text]))
        )
        for name, text in shown.items()
    }
    hosts = frozenset(source.options.get("hosts", ()))
    policy = NetworkPolicy(private=private_hosts)
    timeout_seconds = source.options.get("call_seconds", TIMEOUT_SECONDS)
    return HttpService(source.name, hosts, credentials, policy, timeout_seconds, fixed)
