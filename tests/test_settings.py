"""Settings: names, defaults, bounds, and the words in which a wrong one is refused."""

import re
from pathlib import Path

import pytest
from hypothesis import given as for_each
from hypothesis import strategies as st

from bot.errors import SettingsRefused
from bot.settings import Settings, build_settings, format_example, list_ignored_names, load_settings

TOKEN = "1234567890:AAE-not-a-real-token"

NAMES_AND_DEFAULTS: dict[str, object] = {
    "TELEGRAM_API_URL": "https://api.telegram.org",
    "TELEGRAM_PROXY": None,
    "MODEL_URL": "http://localhost:8000/v1",
    "MODEL_API_KEY": None,
    "MODEL_NAME": None,
    "MODEL_SEATS": 4,
    "MODEL_MAX_TOKENS": 1024,
    "MODEL_METRICS_URLS": (),
    "DATABASE_URL": "sqlite+aiosqlite:///canvasgram.db",
    "ADMIN_IDS": frozenset(),
    "ACCESS": "pairing",
    "GUEST_MODE": "off",
    "THINKING": "auto",
    "THINKING_READ": "auto",
    "SUMMARY": "off",
    "WARM_UP": "on",
    "TURN_SECONDS": 300,
    "PROMPT_BUDGET": 8000,
    "TURN_IMAGES": 4,
    "IMAGE_TOKENS": "auto",
    "TRANSCRIBE_URL": None,
    "TRANSCRIBE_MODEL": "whisper-1",
    "TRANSCRIBE_API_KEY": None,
    "SPEECH_URL": None,
    "SPEECH_MODEL": "tts-1",
    "SPEECH_VOICE": "alloy",
    "SPEECH_API_KEY": None,
    "FALLBACK_URL": None,
    "FALLBACK_MODEL": None,
    "FALLBACK_API_KEY": None,
    "FALLBACK_SEATS": 4,
    "FALLBACK_FOR": "down",
    "TOOLS_DIR": None,
    "TOOLS_PRIVATE_HOSTS": frozenset(),
    "SECRETS_KEY": (),
    "APPROVAL_SECONDS": 900,
    "SEARCH_URL": None,
    "SEARCH_KEY": None,
    "CANVASES_A_DAY": 500,
    "KEEP_TEXT_DAYS": None,
    "DOCUMENTS_DIR": None,
    "BACKUP_DIR": None,
    "BACKUP_KEEP": 7,
    "USAGE_SUMMARY": "off",
    "TIME_ZONE": "UTC",
    "HTTP_PORT": None,
    "HTTP_HOST": "127.0.0.1",
    "PUBLIC_URL": None,
    "ADMIN_PAGE": "off",
    "ADMIN_URL": None,
    "LOG_LEVEL": "INFO",
    "LOG_FORMAT": "text",
}


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No setting in the environment, and an empty working folder."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(**values: object) -> str:
    with pytest.raises(SettingsRefused) as caught:
        build_settings(**{"telegram_token": TOKEN, **values})
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)


def test_names_and_defaults_are_fixed() -> None:
    settings = build_settings(telegram_token=TOKEN)
    assert {"TELEGRAM_TOKEN", "SYSTEM_PROMPT", *NAMES_AND_DEFAULTS} == {
        name.upper() for name in Settings.model_fields
    }
    assert {name: getattr(settings, name.lower()) for name in NAMES_AND_DEFAULTS} == NAMES_AND_DEFAULTS


def test_every_setting_has_one_line_of_help_and_an_example_that_is_accepted() -> None:
    Path("prompt.txt").write_text("Be kind.", encoding="utf-8")
    for name, field in Settings.model_fields.items():
        assert field.description
        assert "\n" not in field.description
        written, value = format_example(name).split("=", 1)
        assert written == name.upper()
        needed: dict[str, object] = {"http_port": 8080} if name in {"public_url", "admin_url"} else {}
        if name == "admin_url":
            needed["admin_page"] = "on"
        if name.startswith("fallback_"):
            needed = {"fallback_url": "http://second/v1"}
        build_settings(**{"telegram_token": TOKEN, **needed, name: value})


def test_the_environment_overrides_the_file_and_an_override_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path(".env").write_text(
        f"TELEGRAM_TOKEN={TOKEN}\nMODEL_SEATS=2\nTURN_IMAGES=3\nPROMPT_BUDGET=4000\nOTHER=1\n"
    )
    monkeypatch.setenv("TURN_IMAGES", "5")
    monkeypatch.setenv("PROMPT_BUDGET", "6000")
    settings = load_settings(prompt_budget=7000)
    assert (settings.model_seats, settings.turn_images, settings.prompt_budget) == (2, 5, 7000)


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_SEATS", "")
    assert load_settings(telegram_token=TOKEN).model_seats == 4


def test_explicit_settings_read_neither_environment_nor_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text(f"TELEGRAM_TOKEN={TOKEN}\nMODEL_SEATS=2\n")
    monkeypatch.setenv("TELEGRAM_TOKEN", TOKEN)
    with pytest.raises(SettingsRefused, match=r"^TELEGRAM_TOKEN is missing"):
        build_settings()
    assert build_settings(telegram_token="1:other").model_seats == 4


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("MODEL_SEAT", "MODEL_SEATS"),
        ("model_seat", "MODEL_SEATS"),
        ("TIMEZONE", "TIME_ZONE"),
        ("TELEGRAM_BOT_TOKEN", "TELEGRAM_TOKEN"),
        ("ADMIN_ID", "ADMIN_IDS"),
        ("LOGLEVEL", "LOG_LEVEL"),
    ],
)
def test_a_misspelled_name_in_the_file_is_refused(name: str, setting: str) -> None:
    Path(".env").write_text(f"TELEGRAM_TOKEN={TOKEN}\n{name}=4\n")
    with pytest.raises(SettingsRefused, match=f"^{name} in .env is no setting. Did you mean {setting}?"):
        load_settings()


def test_a_setting_of_an_earlier_version_is_logged_and_ends_no_start(
    clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clean / ".env").write_text(f"TELEGRAM_TOKEN={TOKEN}\nJOBS_MINUTES=1\n")
    monkeypatch.setenv("TURN_CALLS", "5")
    load_settings()
    assert list_ignored_names(".env") == [
        "JOBS_MINUTES in .env is no setting",
        "TURN_CALLS is no setting any more",
    ]


def test_names_of_other_programs_are_not_taken_for_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    others = ("COMPOSE_PROFILES", "HF_TOKEN", "TZ", "VLLM_API_KEY", "FOO", "TELEGRAM_API_ID", "HTTP_PROXY")
    Path(".env").write_text(f"TELEGRAM_TOKEN={TOKEN}\n" + "".join(f"{name}=1\n" for name in others))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "MODEL_PATH", "LOG_LEVELS", "MODEL_SEAT"):
        monkeypatch.setenv(name, "1")
    load_settings()
    assert list_ignored_names(".env") == [
        "FOO in .env is no setting",
        "TELEGRAM_API_ID in .env is no setting",
        "HTTP_PROXY in .env is no setting",
        "LOG_LEVELS is no setting; LOG_LEVEL is",
        "MODEL_SEAT is no setting; MODEL_SEATS is",
    ]
    assert load_settings(env_file=None, telegram_token=TOKEN).model_seats == 4


@pytest.mark.parametrize(
    "line", ["987654321:AAHs3cret", "AAHs3cret", "AAHs3cret==", "AAH-s3cret=1", "AAHs3cret" * 8 + "=1"]
)
def test_a_line_that_may_be_a_secret_is_named_by_its_number(line: str) -> None:
    Path(".env").write_text(f"# mine\n\nTELEGRAM_TOKEN={TOKEN}\n\n\n{line}\nFOO=1\n")
    load_settings()
    assert list_ignored_names(".env") == ["line 6 in .env is no setting", "FOO in .env is no setting"]


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("localhost:8000", "http://localhost:8000/v1"),
        ("localhost", "http://localhost/v1"),
        ("gpu.lan:8000/v1/", "http://gpu.lan:8000/v1"),
    ],
)
def test_a_model_address_without_scheme_is_mended(value: str, url: str) -> None:
    assert build_settings(telegram_token=TOKEN, model_url=value).model_url == url


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        build_settings(telegram_token=TOKEN).model_seats = 9


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("telegram_token", "secret word", "must be the token @BotFather gave"),
        ("model_api_key", "two words", "must be one word"),
        ("telegram_api_url", "api.telegram.org", "begins with http"),
        ("telegram_api_url", "http://host:99999", "begins with http"),
        ("telegram_api_url", "http://[broken", "begins with http"),
        (
            "telegram_proxy",
            "ftp://ann:hush-hush@host:1",
            "must be a proxy with its port, http:// or socks5://",
        ),
        ("telegram_proxy", "socks5://ann:hush-hush/@host:1", "with % for odd characters"),
        ("telegram_proxy", "http://host", "must be a proxy with its port"),
        ("model_url", "http://me:hush@host/v1", "without a name, a password"),
        ("model_seats", "four", "must be a valid integer."),
        ("secrets_key", "too short", "openssl rand -base64 32"),
        ("tools_private_hosts", "http://printer.lan/", "hosts alone"),
        ("model_metrics_urls", "http://gpu1:8000 http://me:hush-hush@gpu2", "without a name, a password"),
        ("model_metrics_urls", "gpu1:8000,http://GPU1:8000/metrics", "must name each server once"),
        ("model_seats", "0", "must be greater than or equal to 1"),
        ("turn_seconds", "nan", "must be a finite number"),
        ("turn_seconds", "0", "must be greater than 0"),
        ("prompt_budget", "10", "must be greater than or equal to 2000"),
        ("database_url", "postgresql://ann:hush-hush@host/db", "must name a server as postgresql+psycopg://"),
        ("database_url", "postgresql+asyncpg://host/db", "must name a server as postgresql+psycopg://"),
        ("database_url", "postgresql+psycopg://ann:hush-hush@host/", "must end with a database"),
        ("database_url", "postgresql+psycopg://host/db?password=hush-hush", "must have the password before"),
        ("database_url", "sqlite:///file.db", "must be an SQLite file"),
        ("database_url", "sqlite+aiosqlite:///:memory:", "must be an SQLite file"),
        ("admin_ids", "12, twelve", "must be numbers of Telegram users"),
        ("admin_ids", 12.5, "must be"),
        ("access", "everybody", "must be 'pairing', 'allowlist' or 'open'"),
        ("system_prompt", "@missing.txt", "missing.txt, which cannot be read (No such file or directory)"),
        ("system_prompt", "@", "which cannot be read"),
        ("system_prompt", "@~nobody-here/a", "names ~nobody-here, and nobody here has that home folder"),
        ("backup_dir", "~nobody-here/a", "names ~nobody-here, and nobody here has that home folder"),
        ("system_prompt", "  ", "must be a text, or @"),
        ("fallback_url", "http://127.0.0.1:8000/v1/", "must be another address than MODEL_URL"),
        ("fallback_model", "gemma", "does nothing without FALLBACK_URL"),
        ("fallback_api_key", "hush-hush", "does nothing without FALLBACK_URL"),
        ("fallback_for", "hard", "does nothing without FALLBACK_URL"),
        ("canvases_a_day", "-1", "must be greater than or equal to 1"),
        ("keep_text_days", "a month", "must be a valid integer"),
        ("http_port", "70000", "must be less than or equal to 65535"),
        ("http_port", "web", "must be a valid integer"),
        ("log_level", "loud", "must be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line_with_an_example(
    name: str, value: object, problem: str
) -> None:
    line = refusal(**{name: value})
    assert line.startswith(f"{name.upper()} ")
    assert problem in line
    assert "hush-hush" not in line
    assert line.endswith(f"Example: {format_example(name)}")
    assert "\n" not in line


@for_each(name=st.sampled_from(sorted(Settings.model_fields)), value=st.text())
def test_any_text_is_taken_or_refused_in_one_line_that_does_not_show_a_secret(name: str, value: str) -> None:
    try:
        build_settings(**{"telegram_token": TOKEN, name: value})
    except SettingsRefused as refused:
        line = str(refused)
        assert line.startswith(f"{name.upper()} ")
        if name in {"telegram_token", "model_api_key"} and len(value) > 20:
            assert value not in line


def test_a_secret_is_in_no_printed_form_of_the_settings() -> None:
    database_url = "postgresql+psycopg://ann:hush%40hush@host/db"
    settings = build_settings(
        telegram_token=TOKEN,
        model_api_key="hush-hush-hush",
        database_url=database_url,
        telegram_proxy="http://ann:hush-proxy@host:3128",
    )
    assert settings.list_secrets()[:2] == [TOKEN, "hush-hush-hush"]
    assert set(settings.list_secrets()[2:]) == {"hush%40hush", "hush@hush", "hush-proxy"}
    for text in (repr(settings), str(settings), settings.model_dump_json()):
        assert "AAE" not in text
        assert "hush" not in text


def test_addresses_lose_the_parts_that_the_gateway_adds() -> None:
    settings = build_settings(
        telegram_token=TOKEN, telegram_api_url=" http://tg:8081/bot/ ", model_url="http://gpu:8000/"
    )
    assert settings.telegram_api_url == "http://tg:8081"
    assert settings.model_url == "http://gpu:8000/v1"
    assert (
        build_settings(telegram_token=TOKEN, model_url="https://host/llm/v1/").model_url
        == "https://host/llm/v1"
    )


def test_several_encryption_keys_are_accepted_and_hidden() -> None:
    old = "A" * 43 + "="
    new = "b" * 43 + "="
    settings = build_settings(telegram_token=TOKEN, secrets_key=f"{new}, {old}")
    assert [key.get_secret_value() for key in settings.secrets_key] == [new, old]
    assert {old, new} <= set(settings.list_secrets())
    assert old not in repr(settings)


def test_servers_are_named_by_any_of_their_addresses() -> None:
    written = "gpu1:8000, http://gpu2:8000/v1/ https://gpu3/llm/v1,http://gpu4/metrics"
    settings = build_settings(telegram_token=TOKEN, model_metrics_urls=written)
    assert settings.model_metrics_urls == (
        *("http://gpu1:8000", "http://gpu2:8000"),
        *("https://gpu3/llm", "http://gpu4"),
    )


def test_private_hosts_are_read_in_any_case() -> None:
    settings = build_settings(telegram_token=TOKEN, tools_private_hosts="Printer.lan, 192.168.1.10:8080 ::1")
    assert settings.tools_private_hosts == {"printer.lan", "192.168.1.10:8080", "::1"}


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("http://gpu:8000", "http://GPU.:8000/v1", True),
        ("http://gpu", "http://gpu:80/v1", True),
        ("https://gpu/v1", "https://gpu:443", True),
        ("http://gpu:8000", "http://gpu:8001", False),
        ("http://gpu/a/v1", "http://gpu/b/v1", False),
        ("http://gpu", "https://gpu", False),
    ],
)
def test_the_second_endpoint_is_another_one(first: str, second: str, same: bool) -> None:
    if same:
        assert refusal(model_url=first, fallback_url=second).startswith(
            "FALLBACK_URL must be another address"
        )
    else:
        assert build_settings(telegram_token=TOKEN, model_url=first, fallback_url=second).fallback_url


def test_a_wrong_first_address_is_reported_before_the_second() -> None:
    assert refusal(model_url="nowhere", fallback_url="nowhere").startswith("MODEL_URL ")
    assert refusal(fallback_url="nowhere", fallback_model="gemma").startswith("FALLBACK_URL ")


def test_admins_are_numbers_between_commas() -> None:
    assert build_settings(telegram_token=TOKEN, admin_ids="12, 34,\n56,").admin_ids == {12, 34, 56}
    assert build_settings(telegram_token=TOKEN, admin_ids=[7]).admin_ids == {7}


def test_the_port_may_be_off_and_choices_may_be_in_any_case() -> None:
    settings = build_settings(
        telegram_token=TOKEN, http_port="off", access="OPEN", log_level="debug", log_format="JSON"
    )
    assert (settings.http_port, settings.access, settings.log_level, settings.log_format) == (
        None,
        "open",
        "DEBUG",
        "json",
    )
    assert build_settings(telegram_token=TOKEN, http_port="8080").http_port == 8080
    assert build_settings(telegram_token=TOKEN, canvases_a_day="off").canvases_a_day is None
    assert build_settings(telegram_token=TOKEN, keep_text_days="0").keep_text_days is None


def test_the_system_prompt_may_be_in_a_file(clean: Path) -> None:
    (clean / "prompt.txt").write_text("Sei freundlich.\n", encoding="utf-8")
    assert (
        build_settings(telegram_token=TOKEN, system_prompt="@prompt.txt").system_prompt == "Sei freundlich."
    )
    (clean / "prompt.txt").write_bytes(b"\xff\xfe")
    assert "is not UTF-8 text" in refusal(system_prompt="@prompt.txt")


def test_an_unknown_time_zone_is_refused_and_a_folder_may_begin_with_a_tilde() -> None:
    for wrong in ("Mars/Olympus", "../etc/passwd", "/etc/passwd", ""):
        assert (
            refusal(time_zone=wrong)
            == "TIME_ZONE must be the name of a time zone. Example: TIME_ZONE=Europe/Berlin"
        )
    settings = build_settings(telegram_token=TOKEN, time_zone="Europe/Berlin", backup_dir="~/backups")
    assert (settings.time_zone, settings.backup_dir) == ("Europe/Berlin", Path.home() / "backups")


@pytest.mark.parametrize(("max_tokens", "canvases"), [(1000, 4 + 12), (2000, 4 + 16)])
def test_the_longest_reply_is_a_thought_and_a_call_that_was_cut_before(
    max_tokens: int, canvases: int
) -> None:
    settings = build_settings(telegram_token=TOKEN, prompt_budget=8000, model_max_tokens=max_tokens)
    assert (settings.max_reply_canvases, settings.max_context_tokens) == (canvases, 8000 + canvases * 256)


def test_an_unreadable_settings_file_is_reported(clean: Path) -> None:
    (clean / ".env").write_bytes(b"\xff\xfeX=1")
    with pytest.raises(SettingsRefused, match=r"^\.env is not UTF-8 text\.$"):
        load_settings()
    with pytest.raises(SettingsRefused, match=r"^TELEGRAM_TOKEN is missing"):
        load_settings(env_file=None)


def test_the_example_file_names_every_setting_in_order() -> None:
    text = (Path(__file__).parent.parent / ".env.example").read_text(encoding="utf-8")
    assert re.findall(r"^(?:# )?([A-Z_]+)=", text, re.MULTILINE) == [
        "COMPOSE_PROFILES",
        "HF_TOKEN",
        "SEARXNG_SECRET",
        "POSTGRES_PASSWORD",
        *(name.upper() for name in Settings.model_fields),
    ]
    to_fill_in = re.findall(r"^([A-Z_]+)=(.*)$", text, re.MULTILINE)
    assert to_fill_in == [
        ("COMPOSE_PROFILES", ""),
        ("HF_TOKEN", ""),
        ("SEARXNG_SECRET", ""),
        ("POSTGRES_PASSWORD", ""),
        ("TELEGRAM_TOKEN", ""),
        ("MODEL_API_KEY", ""),
    ]
    for name, field in Settings.model_fields.items():
        assert field.description
        assert f"\n# {field.description[0].upper()}{field.description[1:]}\n" in text
        if name not in {"telegram_token", "model_api_key", "system_prompt"}:
            assert f"\n# {format_example(name)}\n" in text
