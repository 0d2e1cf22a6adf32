"""The first setup: checks token and endpoint, writes `.env`, and creates the first admin's link.

Owns the order of the questions; the command line asks them. Calls Telegram, the endpoint and the database.
"""

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bot.cli.env_file import write_settings
from bot.db.engine import open_database
from bot.db.migrate import migrate
from bot.db.people import people
from bot.errors import KeyRefused, ServerAway, SettingsRefused, TelegramRefused
from bot.llm.server_api import ServedModel, fetch_models, fetch_version
from bot.settings import NO_BOT_TOKEN, Settings, format_example, load_settings
from bot.telegram.bot_identity import BotIdentity, check_token

MAX_ANSWERS = 3  # to one question, then setup ends
MIN_VLLM_VERSION = (0, 33)


@dataclass(frozen=True, slots=True)
class _Question:
    """A question: the name of its setting, its text, and whether the answer is hidden while typed."""

    setting: str
    prompt: str
    hidden: bool = False


_TOKEN_QUESTION = _Question("telegram_token", "Bot token from @BotFather (not shown)", hidden=True)
_KEY_QUESTION = _Question("model_api_key", "Key of the endpoint (not shown)", hidden=True)
_ADDRESS_QUESTION = _Question("model_url", "Address of the endpoint")


class Prompter(Protocol):
    """The person at the terminal, or nobody."""

    def say(self, line: str) -> None:
        """Show one line."""
        ...

    def ask(self, question: str, *, hidden: bool = False) -> str | None:
        """Return the answer to a question (not shown while typed if `hidden`), None if nobody is there."""
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
        load_settings(self.env_file, **{"telegram_token": NO_BOT_TOKEN, **self.values})
        bot = await self._check_bot()
        self.prompter.say(f"Bot: @{bot.username} ({bot.name}).")
        self._save()
        self.prompter.say(await self._check_endpoint())
        self._save()
        self.prompter.say(f"Settings: {self.env_file}, readable by you alone.")
        code = await _create_invite(self._load_settings().database_url)
        self.prompter.say(
            f"Whoever opens this link first, within {people.FIRST_ADMIN_MINUTES} minutes, becomes admin:\n"
            f"  https://t.me/{bot.username}?start={code}\n"
            "Then start the gateway: canvasgram run"
        )

    async def _check_bot(self) -> BotIdentity:
        answers_left = MAX_ANSWERS
        while True:
            try:
                settings = self._load_settings()
                return await check_token(
                    settings.telegram_token.get_secret_value(), settings.telegram_api_url
                )
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
                settings = self._load_settings()
                key = None
                if settings.model_api_key:
                    key = settings.model_api_key.get_secret_value()
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

    def _ask_again(self, question: _Question, problem: SettingsRefused, answers_left: int) -> int:
        """Ask because of `problem`; return how many answers are left after this one.

        Raises `problem` when nobody is there or no answer is left.
        """
        if not answers_left:
            raise problem
        answer = self.prompter.ask(f"{problem}\n{question.prompt}", hidden=question.hidden)
        if answer is None:
            raise problem
        self.values[question.setting] = answer.strip()
        return answers_left - 1

    def _load_settings(self) -> Settings:
        return load_settings(self.env_file, **self.values)

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
    if _is_recent(version):
        return line
    return f"{line} Use vLLM 0.33 or newer: older ones speak the protocol differently."


def _is_recent(version: str | None) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", version or "")
    return numbers is None or (int(numbers[1]), int(numbers[2])) >= MIN_VLLM_VERSION


async def _create_invite(database_url: str) -> str:
    migrate(database_url)
    async with open_database(database_url) as database, database.transaction() as tx:
        return await people.insert_first_admin_invite(tx, now=time.time())
