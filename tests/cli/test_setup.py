"""`canvasgram setup` against a Bot API and an endpoint over HTTP: its questions, its file and its link."""

import re
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bot.cli.setup import SetupWizard
from bot.db.engine import open_database
from bot.db.people.people import redeem_invite
from bot.errors import SettingsRefused, TelegramAway
from bot.http_server import serve
from bot.settings import Settings, load_settings

TOKEN = "1234567890:AAE-not-a-real-token"
KEY = "hush-hush-hush"


@dataclass
class FakeServers:
    """A Bot API that knows one token, and an endpoint that may require a key."""

    url: str = ""
    key: str | None = None
    models: list[str] = field(default_factory=lambda: ["gemma4"])
    version: str | None = "0.33.0"

    async def get_me(self, request: Request) -> JSONResponse:
        if request.path_params["token"] != TOKEN:
            return JSONResponse({"ok": False, "error_code": 401, "description": "Unauthorized"}, 401)
        me = {"id": 7, "is_bot": True, "first_name": "Canvas", "username": "canvas_bot"}
        return JSONResponse({"ok": True, "result": me})

    async def list_models(self, request: Request) -> JSONResponse:
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            return JSONResponse({"error": "Unauthorized"}, 401)
        return JSONResponse({"data": [{"id": name, "max_model_len": 65536} for name in self.models]})

    async def get_version(self, _: Request) -> JSONResponse:
        return JSONResponse({"version": self.version} if self.version else {"detail": "Not Found"})


@dataclass
class ScriptedPrompter:
    """Answers questions with prepared answers; None stands for nobody at the terminal.

    `choices` are the answers to questions with a default, by a word in the question.
    """

    answers: list[str | None] = field(default_factory=list)
    choices: dict[str, list[str]] = field(default_factory=dict)
    questions: list[tuple[str, bool]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def say(self, line: str) -> None:
        self.lines.append(line)

    def ask(self, question: str, *, hidden: bool = False) -> str | None:
        self.questions.append((question, hidden))
        return self.answers.pop(0) if self.answers else None

    def choose(self, question: str, default: str) -> str:
        for word, answers in self.choices.items():
            if word in question and answers:
                return answers.pop(0)
        return default


@pytest.fixture
async def servers() -> AsyncIterator[FakeServers]:
    fake_servers = FakeServers()
    routes = [
        Route("/bot{token}/getMe", fake_servers.get_me, methods=["GET", "POST"]),
        Route("/v1/models", fake_servers.list_models),
        Route("/version", fake_servers.get_version),
    ]
    async with serve(Starlette(routes=routes)) as url:
        fake_servers.url = url
        yield fake_servers


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def run_setup(servers: FakeServers, *answers: str | None, **chosen: str) -> ScriptedPrompter:
    prompter = ScriptedPrompter(list(answers))
    api = {"telegram_api_url": servers.url}
    await SetupWizard(Path(".env"), prompter, {**api, **chosen}).run()
    return prompter


async def test_without_questions_it_writes_the_file_and_prints_a_link_that_works_once(
    servers: FakeServers,
) -> None:
    prompter = await run_setup(servers, telegram_token=TOKEN, model_url=f"{servers.url}/v1")
    assert prompter.questions == []
    assert "Bot: @canvas_bot (Canvas)." in prompter.lines
    assert any("serves gemma4, context 65536 tokens, vLLM 0.33.0." in line for line in prompter.lines)
    assert stat.S_IMODE(Path(".env").stat().st_mode) == 0o600
    settings = load_settings(".env")
    assert settings.telegram_token.get_secret_value() == TOKEN
    assert settings.model_url == f"{servers.url}/v1"
    link = re.search(r"https://t\.me/canvas_bot\?start=([\w-]+)", "\n".join(prompter.lines))
    assert link
    assert len(link[1]) <= 64
    async with open_database(settings.database_url) as database:
        for role in ("admin", None):
            async with database.transaction() as tx:
                assert await redeem_invite(tx, link[1], 5, "Ann", now=0) == role
    assert link[1].encode() not in Path("canvasgram.db").read_bytes()


async def test_it_asks_for_a_missing_token_and_again_for_a_wrong_one(servers: FakeServers) -> None:
    prompter = await run_setup(servers, "nonsense", "1:wrong", f" {TOKEN} ", model_url=f"{servers.url}/v1")
    assert [hidden for _, hidden in prompter.questions] == [True, True, True]
    first, no_token, refused = (question for question, _ in prompter.questions)
    assert first.startswith("Two things are needed: a Telegram bot and a model.")
    assert no_token.startswith("TELEGRAM_TOKEN must be")
    assert refused.startswith("TELEGRAM_TOKEN: Telegram does not know this bot token")
    assert load_settings(".env").telegram_token.get_secret_value() == TOKEN


async def test_it_asks_for_the_address_and_the_key_of_the_endpoint(servers: FakeServers) -> None:
    servers.key = KEY
    prompter = await run_setup(
        servers, "nowhere", f"{servers.url}/v1", KEY, telegram_token=TOKEN, model_url="http://127.0.0.1:9"
    )
    assert [hidden for _, hidden in prompter.questions] == [False, False, True]
    away, no_address, key = (question for question, _ in prompter.questions)
    assert away.startswith("MODEL_URL: Nothing answers at http://127.0.0.1:9/v1/models")
    assert no_address.startswith("MODEL_URL must be a web address")
    assert key.startswith("MODEL_API_KEY: The endpoint at")
    settings = load_settings(".env")
    assert settings.model_api_key
    assert settings.model_api_key.get_secret_value() == KEY
    assert KEY not in " ".join([*prompter.lines, *(question for question, _ in prompter.questions)])


async def test_the_first_setup_offers_what_an_owner_would_miss_later(
    servers: FakeServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tzlocal.get_localzone_name", lambda: "Europe/Berlin")
    await run_setup(servers, telegram_token=TOKEN, model_url=f"{servers.url}/v1")
    settings = load_settings(".env")
    assert (settings.time_zone, settings.backup_dir, settings.http_port) == (
        "Europe/Berlin",
        Path("backups"),
        None,
    )
    [key] = settings.secrets_key
    await run_setup(servers)  # a second one changes nothing
    assert load_settings(".env").secrets_key == (key,)


@pytest.mark.parametrize("zone", ["Etc/UTC", "UTC", None])
async def test_the_utc_of_a_server_is_not_written_as_the_zone_of_its_people(
    servers: FakeServers, monkeypatch: pytest.MonkeyPatch, zone: str | None
) -> None:
    monkeypatch.setattr("tzlocal.get_localzone_name", lambda: zone)
    await run_setup(servers, telegram_token=TOKEN, model_url=f"{servers.url}/v1")
    assert "TIME_ZONE" not in Path(".env").read_text()


async def test_answers_to_the_offers_are_checked_and_none_is_an_answer(servers: FakeServers) -> None:
    prompter = ScriptedPrompter(
        choices={"time zone": ["Atlantis", "Asia/Tokyo"], "backup": ["None"], "Port": ["99999", "8080"]}
    )
    values = {"telegram_api_url": servers.url, "telegram_token": TOKEN, "model_url": f"{servers.url}/v1"}
    await SetupWizard(Path("sub.env"), prompter, values).run()
    settings = load_settings("sub.env")
    assert (settings.time_zone, settings.backup_dir, settings.http_port) == ("Asia/Tokyo", None, 8080)
    assert settings.admin_page_url == "http://127.0.0.1:8080"
    assert any(line.startswith("TIME_ZONE must be the name of a time zone") for line in prompter.lines)
    assert any(line.startswith("HTTP_PORT must be") for line in prompter.lines)


async def test_an_address_without_its_scheme_is_mended(servers: FakeServers) -> None:
    host = servers.url.removeprefix("http://")
    await run_setup(servers, telegram_token=TOKEN, model_url=host)
    assert f"\nMODEL_URL={servers.url}/v1\n" in Path(".env").read_text()


async def test_a_second_run_keeps_the_file_and_asks_nothing(servers: FakeServers) -> None:
    Path(".env").write_text(f"# mine\nTELEGRAM_TOKEN={TOKEN}\nMODEL_URL={servers.url}/v1\nMODEL_SEATS=2\n")
    prompter = await run_setup(servers)
    assert prompter.questions == []
    assert (
        Path(".env")
        .read_text()
        .startswith(f"# mine\nTELEGRAM_TOKEN={TOKEN}\nMODEL_URL={servers.url}/v1\nMODEL_SEATS=2")
    )


@pytest.mark.parametrize(
    ("chosen", "line"),
    [
        (
            {},
            "TELEGRAM_TOKEN is missing: setup asks for it in a terminal only, and not with --yes. Example: ",
        ),
        ({"telegram_token": "1:wrong"}, "TELEGRAM_TOKEN: Telegram does not know"),
        ({"telegram_token": TOKEN, "model_url": "http://127.0.0.1:9/v1"}, "MODEL_URL: Nothing answers at"),
        ({"telegram_token": TOKEN, "model_api_key": "two words"}, "MODEL_API_KEY must be"),
        ({"telegram_token": TOKEN, "database_url": "mysql://x"}, "DATABASE_URL must be"),
    ],
)
async def test_without_a_terminal_it_ends_with_one_clear_line(
    servers: FakeServers, chosen: dict[str, str], line: str
) -> None:
    with pytest.raises(SettingsRefused) as caught:
        await run_setup(servers, **chosen)
    assert str(caught.value).startswith(line)
    assert "Example: " in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_it_gives_up_after_three_wrong_answers(servers: FakeServers) -> None:
    prompter = ScriptedPrompter(["1:a", "1:b", "1:c", TOKEN])
    with pytest.raises(SettingsRefused, match="Telegram does not know"):
        await SetupWizard(Path(".env"), prompter, {"telegram_api_url": servers.url}).run()
    assert len(prompter.questions) == 3


async def test_an_unreachable_telegram_is_reported(servers: FakeServers) -> None:
    with pytest.raises(TelegramAway, match="does not answer"):
        await run_setup(servers, telegram_token=TOKEN, telegram_api_url="http://127.0.0.1:9")


async def test_an_endpoint_without_the_requested_model_is_reported(servers: FakeServers) -> None:
    chosen = {"telegram_token": TOKEN, "model_url": f"{servers.url}/v1"}
    with pytest.raises(SettingsRefused, match=r"does not serve it, but gemma4\. Example: MODEL_NAME=gemma4$"):
        await run_setup(servers, model_name="other", **chosen)
    servers.models = []
    with pytest.raises(SettingsRefused, match="serves no model"):
        await run_setup(servers, **chosen)


@pytest.mark.parametrize(
    ("version", "advised"), [("0.33.0", False), ("1.0", False), ("0.22.1rc1.dev357", True), (None, False)]
)
async def test_an_old_server_gets_a_warning(servers: FakeServers, version: str | None, advised: bool) -> None:
    servers.version = version
    prompter = await run_setup(servers, telegram_token=TOKEN, model_url=f"{servers.url}/v1")
    assert any("Use vLLM 0.33 or newer" in line for line in prompter.lines) is advised
