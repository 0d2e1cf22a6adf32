"""The first setup: checks token and endpoint, writes `.env`, and creates the first admin's link.

Owns the order of the questions; the command line asks them. Calls Telegram, the endpoint and the database.
"""

import base64
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from zoneinfo import ZoneInfoNotFoundError

import tzlocal

from bot.check.telegram_probe import PROXY_IN_USE, TOPICS_OFF
from bot.cli.env_file import write_settings
from bot.db.database_url import find_data_folder, is_postgresql
from bot.db.engine import open_database
from bot.db.migrate import migrate
from bot.db.people import people
from bot.errors import KeyRefused, ServerAway, SettingMissing, SettingsRefused, TelegramRefused
from bot.jobs.times.zones import is_utc
from bot.llm.diagnostics import RECOMMENDED_RELEASE, parse_release
from bot.llm.server_api import ServedModel, fetch_models, fetch_version
from bot.settings import NO_BOT_TOKEN, Settings, describe_proxy, format_example, load_settings
from bot.telegram.bot_identity import BotIdentity, check_token

MAX_ANSWERS = 3  # to one question, then setup ends


@dataclass(frozen=True, slots=True)
class _Question:
    """A question: the name of its setting, its text, and whether the answer is hidden while typed."""

    setting: str
    prompt: str
    hidden: bool = False


FIRST_WORDS = (
    "Two things are needed: a Telegram bot and a model. "
    "For the bot, send /newbot to @BotFather in Telegram; at the end it shows a token."
)
_TOKEN_QUESTION = _Question("telegram_token", "Bot token from @BotFather (not shown)", hidden=True)
_KEY_QUESTION = _Question("model_api_key", "Key of the endpoint (not shown)", hidden=True)
_ADDRESS_QUESTION = _Question("model_url", "Address of the endpoint")
_ZONE_QUESTION = _Question("time_zone", "Your time zone (none: each person is asked for theirs)")
_BACKUP_QUESTION = _Question("backup_dir", "Folder for a backup every night (none: no backups)")
_PORT_QUESTION = _Question(
    "http_port", "Port for the admins' web page, /healthz and /metrics on this machine (none: no port)"
)
_PAGE_QUESTION = _Question("admin_page", "Serve the admins' web page there (on or off)")
NO_ANSWER = "none"


class Prompter(Protocol):
    """The person at the terminal, or nobody."""

    def say(self, line: str) -> None:
        """Show one line."""
        ...

    def ask(self, question: str, *, hidden: bool = False) -> str | None:
        """Return the answer to a question (not shown while typed if `hidden`), None if nobody is there."""
        ...

    def choose(self, question: str, default: str) -> str:
        """Return the answer to a question, or the default if nobody is there or nothing is typed."""
        ...


@dataclass(frozen=True, slots=True)
class SetupWizard:
    """One run of `setup`; `values` holds settings by name: from the options first, then the answers."""

    env_file: Path
    prompter: Prompter
    values: dict[str, str]

    async def run(self) -> None:
        """Ask, write the settings and show the link.

        Raises SettingsRefused or TelegramAway, with one clear line.
        """
        # Whatever else is wrong is reported before the first question.
        self._load_settings({"telegram_token": NO_BOT_TOKEN, **self.values})
        bot = await self._check_bot()
        self.prompter.say(f"Bot: @{bot.username} ({bot.name}).")
        if (proxy := self._load_settings(self.values).telegram_proxy) is not None:
            self.prompter.say(f"{PROXY_IN_USE.format(describe_proxy(proxy))}.")
        if not bot.has_topics:
            self.prompter.say(f"{TOPICS_OFF}.")
        self._save()
        self.prompter.say(await self._check_endpoint())
        if "telegram_token" in self.values:  # it was not in the file: this is the first setup
            self._offer_options()
        self._save()
        self.prompter.say(f"Settings: {self.env_file}, readable by you alone.")
        option = "" if self.env_file == Path(".env") else f" --env-file {self.env_file}"
        code = await _create_invite(self._load_settings(self.values).database_url)
        self.prompter.say(
            f"Whoever opens this link first, within {people.FIRST_ADMIN_MINUTES} minutes, becomes admin:\n"
            f"  https://t.me/{bot.username}?start={code}\n"
            f"Then start the gateway, in the way you started this: canvasgram run{option}"
        )

    async def _check_bot(self) -> BotIdentity:
        answers_left = MAX_ANSWERS
        while True:
            try:
                settings = self._load_settings(self.values)
                token = settings.telegram_token.get_secret_value()
                return await check_token(token, settings.telegram_api_url, settings.telegram_proxy)
            except SettingMissing:
                missing = SettingsRefused(
                    "TELEGRAM_TOKEN is missing: setup asks for it in a terminal only, and not with --yes. "
                    "Example: canvasgram setup --yes --token 1234567890:AAE…"
                )
                answers_left = self._ask_again(_TOKEN_QUESTION, missing, answers_left, FIRST_WORDS)
                continue
            except TelegramRefused as refused:
                problem = SettingsRefused(
                    f"TELEGRAM_TOKEN: {refused} Example: {format_example('telegram_token')}"
                )
            except SettingsRefused as refused:
                problem = refused
            answers_left = self._ask_again(_TOKEN_QUESTION, problem, answers_left)

    async def _check_endpoint(self) -> str:
        question = _ADDRESS_QUESTION
        answers_left = MAX_ANSWERS
        while True:
            try:
                settings = self._load_settings(self.values)
                key = None
                if settings.model_api_key:
                    key = settings.model_api_key.get_secret_value()
                if "model_url" in self.values:
                    self.values["model_url"] = settings.model_url  # as it was mended
                return await _describe_endpoint(settings, await fetch_models(settings.model_url, key))
            except KeyRefused as refused:
                question = _KEY_QUESTION
                problem = SettingsRefused(
                    f"MODEL_API_KEY: {refused} Example: {format_example('model_api_key')}"
                )
            except ServerAway as away:
                question = _ADDRESS_QUESTION
                problem = SettingsRefused(f"MODEL_URL: {away} Example: {format_example('model_url')}")
            except SettingsRefused as refused:
                problem = refused
            answers_left = self._ask_again(question, problem, answers_left)

    def _ask_again(
        self,
        question: _Question,
        problem: SettingsRefused,
        answers_left: int,
        introduction: str | None = None,
    ) -> int:
        """Ask because of `problem`, or with an introduction in place of it; return how many answers are left.

        Raises `problem` when nobody is there or no answer is left.
        """
        if not answers_left:
            raise problem
        answer = self.prompter.ask(f"{introduction or problem}\n{question.prompt}", hidden=question.hidden)
        if answer is None:
            raise problem
        self.values[question.setting] = answer.strip()
        return answers_left - 1

    def _offer_options(self) -> None:
        """Offer what an owner would miss later, each with a default."""
        url = self._load_settings(self.values).database_url
        self._offer(_ZONE_QUESTION, _find_machine_zone())
        if not is_postgresql(url):
            self._offer(_BACKUP_QUESTION, str(find_data_folder(url) / "backups"))
        self._offer(_PORT_QUESTION, NO_ANSWER)
        if self._is_set("http_port"):
            self._offer(_PAGE_QUESTION, "on")
        if not self._is_set("secrets_key"):
            self.values["secrets_key"] = base64.b64encode(secrets.token_bytes(32)).decode()
            self.prompter.say(
                "SECRETS_KEY is a new key that encrypts secrets of tools. It is in no backup: keep a copy."
            )

    def _offer(self, question: _Question, default: str) -> None:
        if self._is_set(question.setting):
            return
        for _ in range(MAX_ANSWERS):
            answer = self.prompter.choose(question.prompt, default).strip()
            if answer.lower() == NO_ANSWER:
                return
            try:
                self._load_settings({**self.values, question.setting: answer})
            except SettingsRefused as refused:
                self.prompter.say(str(refused))
            else:
                self.values[question.setting] = answer
                return

    def _is_set(self, name: str) -> bool:
        return name in self._load_settings(self.values).model_fields_set

    def _load_settings(self, values: Mapping[str, str]) -> Settings:
        file = self.env_file if self.env_file.exists() else None
        return load_settings(file, **values)

    def _save(self) -> None:
        write_settings(self.env_file, {name.upper(): value for name, value in self.values.items()})


async def _describe_endpoint(settings: Settings, models: tuple[ServedModel, ...]) -> str:
    """One line about a usable endpoint; raises SettingsRefused when it does not serve the model."""
    names = [model.name for model in models]
    if not models:
        raise SettingsRefused(
            f"MODEL_URL: the endpoint at {settings.model_url} serves no model. Start one in vLLM."
        )
    if settings.model_name not in {None, *names}:
        raise SettingsRefused(
            f"MODEL_NAME: the endpoint at {settings.model_url} does not serve it, but {', '.join(names)}. "
            f"Example: MODEL_NAME={names[0]}"
        )
    model = models[names.index(settings.model_name or names[0])]
    version = await fetch_version(settings.model_url)
    facts = [f"Endpoint: {settings.model_url} serves {model.name}"]
    if model.context:
        facts.append(f"context {model.context} tokens")
    if version:
        facts.append(f"vLLM {version}")
    line = f"{', '.join(facts)}."
    release = parse_release(version)
    if release is None or release >= RECOMMENDED_RELEASE:
        return line
    return f"{line} Use vLLM 0.33 or newer: older ones speak the protocol differently."


def _find_machine_zone() -> str:
    """The IANA name of the machine's time zone; `none` for UTC, which says nothing about people."""
    try:
        zone = tzlocal.get_localzone_name() or "UTC"
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return NO_ANSWER
    return NO_ANSWER if is_utc(zone) else zone


async def _create_invite(database_url: str) -> str:
    migrate(database_url)
    async with open_database(database_url) as database, database.transaction() as tx:
        return await people.insert_first_admin_invite(tx, now=time.time())
