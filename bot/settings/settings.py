"""Every setting: name, default, bounds and one line of help. The only reader of the environment.

`load_settings` reads the environment and `.env`; `build_settings` takes values alone, for the demo and tests.
"""

import os
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from bot.canvases import CANVAS_TOKENS, MAX_CALL_CANVASES, THINKING_CANVASES, count_canvases
from bot.domain import MAX_TURN_SECONDS
from bot.errors import SettingsRefused
from bot.settings.errors import describe_refusal
from bot.settings.names import REMOVED_NAMES, list_misspelled_variables, list_unknown_in_file
from bot.settings.types import (
    ApiKey,
    BotToken,
    DatabaseAddress,
    EncryptionKeys,
    Hosts,
    Lower,
    ModelAddress,
    ProxyAddress,
    PublicAddress,
    ServerAddresses,
    TelegramAddress,
    TextOrFile,
    TimeZoneName,
    Upper,
    UserIds,
    expand_home,
    parse_location,
    to_browser_address,
)

SYSTEM_PROMPT = (
    "You are a helpful assistant in a Telegram chat. "
    "Answer briefly and plainly, in the user's language, and say so when you do not know."
)
NO_BOT_TOKEN = "0:unset"  # noqa: S105
"""Stands for the token where no bot is needed; no real bot has it."""


class Settings(BaseSettings):
    """All settings. Times are seconds, sizes are tokens; secrets are not shown when printed."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="ignore",
        env_ignore_empty=True,
        dotenv_filtering="only_existing",
        hide_input_in_errors=True,
    )

    # In the order and under the headings of bot/docs/settings.md.

    # Telegram and the model

    telegram_token: BotToken = Field(
        description="the bot's token from @BotFather", examples=["1234567890:AAE-rest-of-the-token"]
    )
    telegram_api_url: TelegramAddress = Field(
        "https://api.telegram.org",
        description="the Bot API's address, without `/bot`",
        examples=["https://api.telegram.org"],
    )
    telegram_proxy: ProxyAddress | None = Field(
        None,
        repr=False,  # it may hold a password
        description="a proxy for all calls to Telegram, and for nothing else",
        examples=["socks5://127.0.0.1:1080"],
    )
    model_url: ModelAddress = Field(
        "http://localhost:8000/v1", description="the model endpoint", examples=["http://localhost:8000/v1"]
    )
    model_api_key: ApiKey | None = Field(
        None, description="the endpoint's key, if it requires one", examples=["a-long-random-word"]
    )
    model_name: str | None = Field(
        None, description="the model to use; unset: the first one listed", examples=["diffusiongemma"]
    )
    model_seats: int = Field(
        4, ge=1, le=1024, description="concurrent model calls; the server's `--max-num-seqs`"
    )
    model_max_tokens: int = Field(
        1024,
        ge=1,
        le=262_144,
        description="longest reply of one model call, in tokens; a tool call that was cut gets 3,072 or more",
    )
    model_metrics_urls: ServerAddresses = Field(
        (),
        description="behind a router: the servers' own addresses, separated by commas, for their counters",
        examples=["http://gpu1:8000,http://gpu2:8000"],
    )

    # Database and access

    database_url: DatabaseAddress = Field(
        "sqlite+aiosqlite:///canvasgram.db",
        repr=False,  # it may hold a password
        description="the database file, after three slashes; or `postgresql+psycopg://user:password@host/name`",
    )
    admin_ids: UserIds = Field(
        frozenset(),
        description="Telegram users who are admins, by number (`/id` shows it)",
        examples=["12345678,87654321"],
    )
    access: Annotated[Literal["pairing", "allowlist", "open"], Lower] = Field(
        "pairing",
        description="strangers get a code for an admin (pairing), are refused (allowlist), may write (open)",
    )
    guest_mode: Annotated[Literal["on", "off"], Lower] = Field(
        "off", description="let people who are in ask it as `@name question` in chats it is no member of"
    )

    # Answers

    system_prompt: TextOrFile = Field(
        SYSTEM_PROMPT,
        description="the system prompt: a text, or `@` and the name of a file",
        examples=["@prompt.txt"],
    )
    thinking: Annotated[Literal["auto", "on", "off"], Lower] = Field(
        "auto",
        description="think in turns that need it (auto), in all (on), in none (off); `/think` overrides it",
    )
    thinking_read: Annotated[Literal["auto", "off"], Lower] = Field(
        "auto", description="ask the endpoint whether to think when words leave it open (auto: where it can)"
    )
    summary: Annotated[Literal["on", "off"], Lower] = Field(
        "off", description="summarize what no longer fits the model's prompt; costs a model call per cut"
    )
    warm_up: Annotated[Literal["on", "off"], Lower] = Field(
        "on", description="fill the endpoint's prefix cache at start with tiny calls"
    )
    turn_seconds: float = Field(
        300,
        gt=0,
        le=MAX_TURN_SECONDS,
        allow_inf_nan=False,
        description="longest work on one turn, in seconds",
    )
    prompt_budget: int = Field(8000, ge=2000, le=262_144, description="largest prompt, in tokens")
    turn_images: int = Field(4, ge=0, le=16, description="most images the model sees in one turn")

    image_tokens: Annotated[Literal["auto", "280", "560", "1120"], Lower] = Field(
        "auto",
        description="tokens of a picture: 280, 560, 1120, or what the warm-up finds the endpoint to take",
    )

    # Voice

    transcribe_url: ModelAddress | None = Field(
        None,
        description="an OpenAI-compatible endpoint that hears voice; chats are asked first if it is outside",
        examples=["http://localhost:9000/v1"],
    )
    transcribe_model: str = Field("whisper-1", description="the model to use there")
    transcribe_api_key: ApiKey | None = Field(
        None, description="its key, if it requires one", examples=["a-long-random-word"]
    )
    speech_url: ModelAddress | None = Field(
        None,
        description="one that speaks answers, as Opus; chats are asked first if it is outside",
        examples=["http://localhost:8880/v1"],
    )
    speech_model: str = Field("tts-1", description="the model to use there")
    speech_voice: str = Field("alloy", description="the voice to use there")
    speech_api_key: ApiKey | None = Field(
        None, description="its key, if it requires one", examples=["a-long-random-word"]
    )

    # A second model

    fallback_url: ModelAddress | None = Field(
        None,
        description="a second endpoint for failover and `/deep`; chats are asked first if it is outside",
        examples=["http://localhost:8001/v1"],
    )
    fallback_model: str | None = Field(
        None, description="the model to use there; unset: the first one it lists", examples=["gemma-4-31b-it"]
    )
    fallback_api_key: ApiKey | None = Field(
        None, description="its key, if it requires one", examples=["a-long-random-word"]
    )
    fallback_seats: int = Field(4, ge=1, le=1024, description="concurrent model calls there")
    fallback_for: Annotated[Literal["down", "hard"], Lower] = Field(
        "down", description="use it when the first is down (down), or also for turns that think (hard)"
    )

    # Tools

    tools_dir: Path | None = Field(
        None,
        description="a folder with Python files of your own tools; only its owner may write there",
        examples=["my-tools"],
    )
    tools_private_hosts: Hosts = Field(
        frozenset(),
        description="hosts on private networks that admins' tools may reach, separated by commas",
        examples=["192.168.1.10,printer.lan"],
    )
    secrets_key: EncryptionKeys = Field(
        (),
        description="encrypts tool secrets: `openssl rand -base64 32`; several: the first encrypts",
        examples=["qW0vZ3J0b3V0Zm9yYW4tZXhhbXBsZS1vZi1hLWtleQ4="],
    )
    approval_seconds: float = Field(
        900, gt=0, le=604_800, allow_inf_nan=False, description="seconds until an approval expires, denied"
    )

    # Web search

    search_url: PublicAddress | None = Field(
        None,
        description="a SearXNG that answers in JSON, to search the web with",
        examples=["http://localhost:8888"],
    )
    search_key: ApiKey | None = Field(
        None,
        description="instead, a key of Brave Search; the company then reads the questions",
        examples=["a-long-random-word"],
    )

    # Limits of a user

    canvases_a_day: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = Field(
        500,
        description="units of 256 tokens (canvases, if the model writes some) a member may use a day; "
        "off: unlimited; `/limits` overrides it",
    )

    # Data and backups

    keep_text_days: Annotated[int, Field(ge=1, le=36_500)] | None = Field(
        None, description="days until texts are deleted and only figures stay; unset: never", examples=["30"]
    )
    documents_dir: Annotated[Path, AfterValidator(expand_home)] | None = Field(
        None,
        description="a folder of files in which everybody with access may have things looked up; unset: none",
        examples=["documents"],
    )
    backup_dir: Annotated[Path, AfterValidator(expand_home)] | None = Field(
        None,
        description="the folder for nightly backups, made while the gateway runs; unset: none",
        examples=["backups"],
    )
    backup_keep: int = Field(
        7, ge=1, le=1000, description="how many backups are kept, each for at most 30 days"
    )

    # Reports, reminders and tasks

    usage_summary: Annotated[Literal["off", "daily", "weekly"], Lower] = Field(
        "off", description="send admins a usage summary in the morning: off, daily, or weekly on Mondays"
    )
    time_zone: TimeZoneName = Field(
        "UTC",
        description="the gateway's time zone; unless it is UTC, also that of users without a `/zone`",
        examples=["Europe/Berlin"],
    )

    # Monitoring and logs

    http_port: Annotated[int, Field(ge=1, le=65_535)] | None = Field(
        None, description="serve `/healthz` and `/metrics` on this port; unset: off", examples=["8080"]
    )
    http_host: str = Field("127.0.0.1", description="the address `HTTP_PORT` listens on")
    public_url: PublicAddress | None = Field(
        None,
        description="the address of `HTTP_PORT` for browsers, where sign-ins of tools come back",
        examples=["https://bot.example.com"],
    )
    admin_page: Annotated[Literal["on", "off"], Lower] = Field(
        "off",
        description="serve the admins' web page on `HTTP_PORT`, at /admin; `/admin` in the chat logs in",
    )
    admin_url: PublicAddress | None = Field(
        None,
        description="the address of the admins' page for browsers, behind TLS; unset: this machine alone",
        examples=["https://bot.example.com"],
    )
    log_level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], Upper] = Field(
        "INFO", description="how much is logged: DEBUG, INFO, WARNING or ERROR"
    )
    log_format: Annotated[Literal["text", "json"], Lower] = Field(
        "text", description="log lines for people (text) or for machines (json)"
    )

    @field_validator("canvases_a_day", "keep_text_days", "http_port", mode="before")
    @classmethod
    def _parse_off(cls, value: object) -> object:
        if isinstance(value, str) and value.strip().lower() in {"off", "0"}:
            return None
        return value

    @field_validator("fallback_url")
    @classmethod
    def _require_other_address(cls, value: str | None, info: ValidationInfo) -> str | None:
        if (
            value is not None
            and "model_url" in info.data
            and parse_location(value) == parse_location(info.data["model_url"])
        ):
            raise ValueError("must be another address than MODEL_URL")
        return value

    @field_validator("fallback_model", "fallback_api_key", "fallback_for")
    @classmethod
    def _require_fallback_url(cls, value: object, info: ValidationInfo) -> object:
        if info.data.get("fallback_url") is None and value not in {None, "down"}:
            raise ValueError("does nothing without FALLBACK_URL")
        return value

    @field_validator("search_key")
    @classmethod
    def _require_one_search_engine(cls, value: object, info: ValidationInfo) -> object:
        if value is not None and info.data.get("search_url") is not None:
            raise ValueError("does nothing beside SEARCH_URL: set one of the two")
        return value

    @field_validator("backup_dir")
    @classmethod
    def _require_file(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if value is not None and info.data.get("database_url", "").startswith("postgresql"):
            raise ValueError("does nothing for PostgreSQL: unset it, and back the server up with pg_dump")
        return value

    @field_validator("public_url")
    @classmethod
    def _require_http_port(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("http_port") is None:
            raise ValueError("does nothing without HTTP_PORT")
        return value

    @field_validator("admin_page")
    @classmethod
    def _require_port_for_page(cls, value: str, info: ValidationInfo) -> str:
        if value == "on" and info.data.get("http_port") is None:
            raise ValueError("does nothing without HTTP_PORT")
        return value

    @field_validator("admin_url")
    @classmethod
    def _require_safe_address(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("admin_page") != "on":
            raise ValueError("does nothing without ADMIN_PAGE=on")
        if value is not None and urlsplit(value).path:
            raise ValueError("must be an address alone: the page is at /admin there")
        if value is not None and not value.startswith("https://"):
            raise ValueError("must begin with https://: whoever reads a login on the way is an admin")
        return value and to_browser_address(value.removesuffix(":443"))

    @property
    def admin_page_url(self) -> str | None:
        """The address under which browsers reach the admins' page; None: it is off."""
        if self.admin_page == "off":
            return None
        return self.admin_url or self._local_url

    @property
    def hooks_url(self) -> str | None:
        """The address under which other programs reach hooks; None: they cannot."""
        if self.http_port is None:
            return None
        return f"{self.public_url or self.admin_url or self._local_url}/hooks"

    @property
    def _local_url(self) -> str:
        """The address of HTTP_PORT on this machine."""
        loopback = "[::1]" if ":" in self.http_host else "127.0.0.1"
        return f"http://{loopback}:{self.http_port}"

    @property
    def fixed_image_tokens(self) -> int | None:
        """Tokens of a picture; None: as many as the endpoint gives it."""
        return None if self.image_tokens == "auto" else int(self.image_tokens)

    @property
    def max_reply_canvases(self) -> int:
        """Canvases of the longest reply: a thought, and a tool call that was cut before."""
        canvases = count_canvases(self.model_max_tokens)
        return THINKING_CANVASES + max(2 * canvases, MAX_CALL_CANVASES)

    @property
    def max_context_tokens(self) -> int:
        """Tokens of the longest prompt with its reply."""
        return self.prompt_budget + CANVAS_TOKENS * self.max_reply_canvases

    def list_secrets(self) -> list[str]:
        """List every value that must never be shown, for logs to hide."""
        sound_keys = (self.transcribe_api_key, self.speech_api_key)
        keys = (self.model_api_key, self.fallback_api_key, self.search_key)
        secrets = (self.telegram_token, *keys, *sound_keys, *self.secrets_key)
        addresses = (self.database_url, self.telegram_proxy or "")
        quoted = [urlsplit(address).password or "" for address in addresses]
        passwords = [text for password in quoted for text in {password, unquote(password)} if text]
        return [secret.get_secret_value() for secret in secrets if secret is not None] + passwords


def describe_proxy(proxy: str) -> str:
    """The address of a proxy without a name and a password."""
    scheme, _, rest = proxy.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].rstrip('/')}"


def reveal(key: ApiKey | None) -> str | None:
    """A key of the settings in clear, to be sent to its own service alone."""
    return key.get_secret_value() if key else None


_NAMES = frozenset(name.upper() for name in Settings.model_fields)


class _ExplicitSettings(Settings):
    """Settings from values alone, without the environment and files."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def load_settings(env_file: Path | str | None = ".env", **overrides: Any) -> Settings:
    """Load settings from `overrides`, else the environment, else `env_file`, else the defaults.

    Raises SettingsRefused, also for a missing file (`.env` may be) and for a misspelled name in it.
    """
    if env_file is not None and Path(env_file).name != ".env" and not Path(env_file).exists():
        raise SettingsRefused(f"{env_file} does not exist. `canvasgram setup`, with this option, writes it.")
    try:
        for unknown in list_unknown_in_file(env_file, _NAMES | REMOVED_NAMES):
            if unknown.nearest is not None:
                raise SettingsRefused(
                    f"{unknown.name} in {env_file} is no setting. Did you mean {unknown.nearest}? "
                    f"Example: {format_example(unknown.nearest.lower())}"
                )
        return Settings(**{"_env_file": env_file, **overrides})
    except ValidationError as error:
        raise describe_refusal(error, Settings.model_fields, format_example) from None
    except OSError as error:
        raise SettingsRefused(f"{env_file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsRefused(f"{env_file} is not UTF-8 text.") from None


def build_settings(**values: Any) -> Settings:
    """Build settings from `values` and the defaults alone. Raises SettingsRefused."""
    try:
        return _ExplicitSettings(**values)
    except ValidationError as error:
        raise describe_refusal(error, Settings.model_fields, format_example) from None


def list_ignored_names(env_file: Path | str | None) -> list[str]:
    """What is set in the file or the environment and is no setting: a sentence each, for the log."""
    unknown_names = list_unknown_in_file(env_file, _NAMES)
    variables = os.environ  # noqa: TID251
    misspelled = list_misspelled_variables(variables, _NAMES | REMOVED_NAMES)
    return [
        *(f"{unknown.name} in {env_file} is no setting" for unknown in unknown_names),
        *(f"{name} is no setting any more" for name in sorted(REMOVED_NAMES & variables.keys())),
        *(f"{unknown.name} is no setting; {unknown.nearest} is" for unknown in misspelled),
    ]


def format_example(name: str) -> str:
    """Format an example of the setting for `.env`, such as `MODEL_SEATS=4`."""
    field = Settings.model_fields[name]
    value = field.examples[0] if field.examples else field.default
    return f"{name.upper()}={value}"


def find_journal() -> str:
    """Return by which device and number systemd names the stream that journald reads, "" without one."""
    return os.environ.get("JOURNAL_STREAM", "")  # noqa: TID251
