"""Types of settings: what each kind of value must look like.

The text of each ValueError follows the setting's name: "MODEL_URL must be a web address …".
"""

import importlib.util
import re
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, SecretStr
from pydantic_settings import NoDecode

_HOST_WITH_PORT = re.compile(r"(localhost|[A-Za-z0-9.-]{1,253}:[0-9]{1,5})(/[^\s]*)?")
_PROXY = re.compile(
    r"(https?|socks5h?)://([^\s/?#@]+@)?([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[1-9][0-9]{0,3}[0-9]?/?"
)
_DEFAULT_PORTS = {"http": 80, "https": 443}


def _check_token(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[0-9]+:[A-Za-z0-9_-]+", value.get_secret_value()):
        raise ValueError("must be the token @BotFather gave: digits, a colon, letters and digits")
    return value


def _check_key(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[\x21-\x7e]+", value.get_secret_value()):
        raise ValueError("must be one word of plain letters, digits and signs")
    return value


def _check_web_address(value: str) -> str:
    value = value.strip().rstrip("/")
    try:
        address = urlsplit(value)
        port_is_readable = address.port != 0
    except ValueError:
        port_is_readable = False
    if not port_is_readable or address.scheme not in {"http", "https"} or not address.hostname:
        raise ValueError("must be a web address that begins with http:// or https://")
    if address.username or address.password or address.query or address.fragment:
        raise ValueError("must be an address alone, without a name, a password, `?` or `#`")
    return value


def _check_telegram_address(value: str) -> str:
    return _check_web_address(value).removesuffix("/bot")


def _check_model_address(value: str) -> str:
    if _HOST_WITH_PORT.fullmatch(value.strip()):
        value = f"http://{value.strip()}"
    value = _check_web_address(value)
    if urlsplit(value).path:
        return value
    return f"{value}/v1"


def parse_location(url: str) -> tuple[str, int, str]:
    """Parse an address into host, port and path, the same for different spellings."""
    address = urlsplit(url)
    host = (address.hostname or "").rstrip(".")
    if host == "localhost":
        host = "127.0.0.1"
    port = address.port or _DEFAULT_PORTS.get(address.scheme, 80)
    return host, port, address.path


def _check_database_url(value: str) -> str:
    if value.startswith("postgres"):
        return _check_server_url(value)
    if not re.fullmatch(r"sqlite\+aiosqlite:///[^?#]+", value) or value.endswith(":memory:"):
        raise ValueError("must be an SQLite file")
    return value


def _check_server_url(value: str) -> str:
    if not value.startswith("postgresql+psycopg://"):
        raise ValueError("must name a server as postgresql+psycopg://user:password@host/database")
    try:
        url = urlsplit(value)
        is_complete = bool(url.path.strip("/")) and url.port != 0
    except ValueError:
        is_complete = False
    if not is_complete:
        raise ValueError("must end with a database: postgresql+psycopg://user:password@host/database")
    if "password" in parse_qs(url.query):
        raise ValueError(
            "must have the password before the host: postgresql+psycopg://user:password@host/name"
        )
    if importlib.util.find_spec("psycopg") is None:
        raise ValueError("needs the driver of PostgreSQL: install canvasgram[postgresql]")
    return value


def _check_proxy(value: str) -> str:
    if not _PROXY.fullmatch(value.strip()):
        raise ValueError(
            "must be a proxy with its port, http:// or socks5://, before it a name and a password if it asks "
            "for them, with % for odd characters (@ is %40)"
        )
    return value.strip()


def _hide_password(url: str) -> str:
    return re.sub("(://[^:/]*):.*@", r"\1:***@", url)


def _split(text: str, pattern: str, problem: str) -> list[str]:
    """The parts of a list with commas or blanks. Raises ValueError where one does not fit the pattern."""
    parts = [part for part in re.split(r"[\s,]+", text) if part]
    if not all(re.fullmatch(pattern, part) for part in parts):
        raise ValueError(problem)
    return parts


def _parse_user_ids(value: object) -> object:
    if not isinstance(value, str):
        return value
    problem = "must be numbers of Telegram users, separated by commas"
    return frozenset(map(int, _split(value, r"[1-9][0-9]{0,15}", problem)))


def _parse_hosts(value: object) -> object:
    if not isinstance(value, str):
        return value
    problem = "must be names or addresses of hosts alone, separated by commas"
    return frozenset(_split(value.lower(), r"[a-z0-9_.:-]+", problem))


def _parse_server_addresses(value: object) -> object:
    """The roots of the servers named: a `/metrics` or `/v1` at the end is left out."""
    if not isinstance(value, str):
        return value
    parts = _split(value, ".*", "")
    roots = [_check_model_address(part.removesuffix("/metrics")).removesuffix("/v1") for part in parts]
    if len({parse_location(root) for root in roots}) < len(roots):
        raise ValueError("must name each server once, or its counters would be added twice")
    return tuple(roots)


def _parse_encryption_keys(value: object) -> object:
    if not isinstance(value, str):
        return value
    problem = "must be 32 random bytes in Base64, as `openssl rand -base64 32` prints them; several: commas"
    return tuple(map(SecretStr, _split(value, r"[A-Za-z0-9+/_-]{43}=", problem)))


def _check_time_zone(value: str) -> str:
    try:
        return ZoneInfo(value.strip()).key
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise ValueError("must be the name of a time zone") from None


def _load_text_or_file(value: str) -> str:
    if value.startswith("@"):
        path = expand_home(Path(value[1:]))
        try:
            value = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ValueError(f"names the file {path}, which cannot be read ({error.strerror})") from None
        except ValueError:
            raise ValueError(f"names the file {path}, which is not UTF-8 text") from None
    if not value.strip():
        raise ValueError("must be a text, or @ and the name of a file that holds one")
    return value.strip()


def expand_home(path: Path) -> Path:
    """The path with `~` at its beginning replaced by a home folder; raises ValueError where there is none."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError(f"names {path.parts[0]}, and nobody here has that home folder") from None


def _to_lower(value: object) -> object:
    if isinstance(value, str):
        return value.strip().lower()
    return value


def _to_upper(value: object) -> object:
    if isinstance(value, str):
        return value.strip().upper()
    return value


BotToken = Annotated[SecretStr, AfterValidator(_check_token)]


def to_browser_address(address: str) -> str:
    """A web address in the letters in which browsers send it: those of other scripts as `xn--…`."""
    address = address.lower()
    if address.isascii():
        return address
    import idna  # few need it; it takes a moment to load

    scheme, _, host = address.partition("://")
    name, colon, port = host.partition(":")
    try:
        return f"{scheme}://{idna.encode(name, uts46=True).decode()}{colon}{port}"
    except idna.IDNAError as error:
        raise ValueError("has no name that a website can have") from error


ApiKey = Annotated[SecretStr, AfterValidator(_check_key)]
TelegramAddress = Annotated[str, AfterValidator(_check_telegram_address)]
ModelAddress = Annotated[str, AfterValidator(_check_model_address)]
PublicAddress = Annotated[str, AfterValidator(_check_web_address)]
DatabaseAddress = Annotated[str, AfterValidator(_check_database_url), PlainSerializer(_hide_password)]
ProxyAddress = Annotated[str, AfterValidator(_check_proxy), PlainSerializer(_hide_password)]
UserIds = Annotated[frozenset[int], NoDecode, BeforeValidator(_parse_user_ids)]
Hosts = Annotated[frozenset[str], NoDecode, BeforeValidator(_parse_hosts)]
ServerAddresses = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_parse_server_addresses)]
EncryptionKeys = Annotated[tuple[SecretStr, ...], NoDecode, BeforeValidator(_parse_encryption_keys)]
TimeZoneName = Annotated[str, AfterValidator(_check_time_zone)]
TextOrFile = Annotated[str, AfterValidator(_load_text_or_file)]
Lower = BeforeValidator(_to_lower)
Upper = BeforeValidator(_to_upper)
