"""The first run: checks token and endpoint, writes `.env`, and makes the link that lets the first admin in.

Owns the order of the questions; the command line puts them to a person. Calls Telegram, the endpoint and the
database.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bot.cli import env_file as envfile
from bot.db import migrate as migrating
from bot.db.engine import connected
from bot.db.people import people
from bot.errors import KeyRefused, ServerAway, SettingsRefused, TelegramRefused
from bot.llm import server_api as server
from bot.settings import NO_BOT, Settings, example, load
from bot.telegram.bot_identity import BotIdentity, check_token

ANSWERS = 3  # to one question, then it ends
LINK_MINUTES = 15
OLDEST_SERVER = (0, 33)


@dataclass(frozen=True, slots=True)
class _Question:
    """What a person is asked for: the name of the setting, the words, and whether the answer is hidden."""

    name: str
    words: str
    hidden: bool = False


_TOKEN = _Question("telegram_token", "Bot token from @BotFather (not shown)", hidden=True)
_KEY = _Question("model_api_key", "Key of the endpoint (not shown)", hidden=True)
_ADDRESS = _Question("model_url", "Address of the endpoint")


class Talk(Protocol):
    """Whoever sits at the terminal, or nobody."""

    def say(self, line: str) -> None:
        """Show one line."""
        ...

    def ask(self, question: str, *, hidden: bool = False) -> str | None:
        """The answer to a question (not shown while typed if `hidden`), None if nobody is there."""
        ...


@dataclass(frozen=True, slots=True)
class FirstRun:
    """One run of `setup`. `chosen` holds settings by name: from the options first, then the answers as they
    come.
    """

    env_file: Path
    talk: Talk
    chosen: dict[str, str]

    async def lead(self) -> None:
        """From questions to the link; raises SettingsRefused, or TelegramAway, with one clear line."""
        load(
            self.env_file, **{"telegram_token": NO_BOT, **self.chosen}
        )  # what else is wrong is said before we ask
        bot = await self._bot()
        self.talk.say(f"Bot: @{bot.username} ({bot.name}).")
        self._save()
        self.talk.say(await self._endpoint())
        self._save()
        self.talk.say(f"Settings: {self.env_file}, readable by you alone.")
        code = await _invite(self._settings().database_url)
        self.talk.say(
            f"Open this link within {LINK_MINUTES} minutes; whoever opens it first becomes admin:\n"
            f"  https://t.me/{bot.username}?start={code}\n"
            "Then start the gateway: canvasgram run"
        )

    async def _bot(self) -> BotIdentity:
        left = ANSWERS
        while True:
            try:
                settings = self._settings()
                return await check_token(
                    settings.telegram_token.get_secret_value(), settings.telegram_api_url
                )
            except TelegramRefused as refused:
                problem = SettingsRefused(f"TELEGRAM_TOKEN: {refused} Example: {example('telegram_token')}")
            except SettingsRefused as refused:
                problem = refused
            left = self._answer(_TOKEN, problem, left)

    async def _endpoint(self) -> str:
        question = _ADDRESS
        left = ANSWERS
        while True:
            try:
                settings = self._settings()
                if settings.model_api_key:
                    key = settings.model_api_key.get_secret_value()
                else:
                    key = None
                return await _described(settings, await server.models(settings.model_url, key))
            except KeyRefused as refused:
                question = _KEY
                problem = SettingsRefused(f"MODEL_API_KEY: {refused} Example: {example('model_api_key')}")
            except ServerAway as away:
                question = _ADDRESS
                problem = SettingsRefused(f"MODEL_URL: {away} Example: {example('model_url')}")
            except SettingsRefused as refused:
                problem = refused
            left = self._answer(question, problem, left)

    def _answer(self, question: _Question, problem: SettingsRefused, left: int) -> int:
        """Ask because of `problem`, raise it when nobody is there or no answer `left`; how many are left
        after this.
        """
        if left:
            answer = self.talk.ask(f"{problem}\n{question.words}", hidden=question.hidden)
        else:
            answer = None
        if answer is None:
            raise problem
        self.chosen[question.name] = answer.strip()
        return left - 1

    def _settings(self) -> Settings:
        return load(self.env_file, **self.chosen)

    def _save(self) -> None:
        envfile.write(self.env_file, {name.upper(): value for name, value in self.chosen.items()})


async def _described(settings: Settings, models: tuple[server.ServedModel, ...]) -> str:
    """One line about a fit endpoint; raises SettingsRefused when it does not serve what is wanted."""
    names = [model.name for model in models]
    if not models:
        raise SettingsRefused(
            f"MODEL_URL: the endpoint at {settings.model_url} serves no model. Start one in vLLM."
        )
    if settings.model_name not in {None, *names}:
        wanted = (
            f"MODEL_NAME: the endpoint at {settings.model_url} does not serve it, but {', '.join(names)}."
        )
        raise SettingsRefused(f"{wanted} Example: MODEL_NAME={names[0]}")
    model = models[names.index(settings.model_name or names[0])]
    release = await server.version(settings.model_url)
    line = f"Endpoint: {settings.model_url} serves {model.name}"
    line += f", context {model.context} tokens" if model.context else ""
    line += f", vLLM {release}." if release else "."
    if _recent(release):
        return line
    return f"{line} Use vLLM 0.33 or newer: older ones speak the protocol differently."


def _recent(release: str | None) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", release or "")
    return numbers is None or (int(numbers[1]), int(numbers[2])) >= OLDEST_SERVER


async def _invite(url: str) -> str:
    migrating.migrate(url)
    async with connected(url) as database:
        return await people.invite(database, role="admin", minutes=LINK_MINUTES)
