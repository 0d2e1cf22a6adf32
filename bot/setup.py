"""The first run: checks token and endpoint, writes `.env`, and makes the link that lets the first admin in.

Owns the order of the questions; the command line puts them to a person. Calls Telegram, the endpoint and the database.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bot import envfile
from bot.agent import server
from bot.db import migrating, people
from bot.db.engine import connected
from bot.errors import SettingsRefused, TelegramRefused
from bot.settings import Settings, example, load
from bot.telegram.identity import BotIdentity, check_token

ANSWERS = 3
LINK_MINUTES = 15
OLDEST_SERVER = (0, 33)


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
    """One run of `setup`. `chosen` holds settings by name: from the options first, then the answers as they come."""

    env_file: Path
    talk: Talk
    chosen: dict[str, str]

    async def lead(self) -> None:
        """From questions to the link; raises SettingsRefused, or TelegramAway, with one clear line."""
        load(self.env_file, **{"telegram_token": "0:unset", **self.chosen})  # what else is wrong is said before we ask
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
        for _ in range(ANSWERS):
            try:
                settings = self._settings()
                return await check_token(settings.telegram_token.get_secret_value(), settings.telegram_api_url)
            except TelegramRefused as refused:
                problem = SettingsRefused(f"TELEGRAM_TOKEN: {refused} Example: {example('telegram_token')}")
            except SettingsRefused as refused:
                problem = refused
            self._answer("telegram_token", "Bot token from @BotFather (not shown)", problem)
        raise problem

    async def _endpoint(self) -> str:
        for _ in range(ANSWERS):
            settings = self._settings()
            key = settings.model_api_key.get_secret_value() if settings.model_api_key else None
            try:
                return await _described(settings, await server.models(settings.model_url, key))
            except server.KeyRefused as refused:
                problem = SettingsRefused(f"MODEL_API_KEY: {refused} Example: {example('model_api_key')}")
                self._answer("model_api_key", "Key of the endpoint (not shown)", problem)
            except server.ServerAway as away:
                problem = SettingsRefused(f"MODEL_URL: {away} Example: {example('model_url')}")
                self._answer("model_url", "Address of the endpoint", problem)
        raise problem

    def _answer(self, name: str, question: str, problem: SettingsRefused) -> None:
        """Ask for a setting because of `problem`, which is raised when there is nobody to ask."""
        answer = self.talk.ask(f"{problem}\n{question}", hidden="not shown" in question)
        if answer is None:
            raise problem
        self.chosen[name] = answer.strip()

    def _settings(self) -> Settings:
        return load(self.env_file, **self.chosen)

    def _save(self) -> None:
        envfile.write(self.env_file, {name.upper(): value for name, value in self.chosen.items()})


async def _described(settings: Settings, models: tuple[server.ServedModel, ...]) -> str:
    """One line about a fit endpoint; raises SettingsRefused when it does not serve what is wanted."""
    names = [model.name for model in models]
    if not models:
        raise SettingsRefused(f"MODEL_URL: the endpoint at {settings.model_url} serves no model. Start one in vLLM.")
    if settings.model_name not in {None, *names}:
        wanted = f"MODEL_NAME: the endpoint at {settings.model_url} does not serve it, but {', '.join(names)}."
        raise SettingsRefused(f"{wanted} Example: MODEL_NAME={names[0]}")
    model = models[names.index(settings.model_name or names[0])]
    release = await server.version(settings.model_url)
    line = f"Endpoint: {settings.model_url} serves {model.name}"
    line += f", context {model.context} tokens" if model.context else ""
    line += f", vLLM {release}." if release else "."
    return line if _recent(release) else f"{line} Use vLLM 0.33 or newer: older ones speak the protocol differently."


def _recent(release: str | None) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", release or "")
    return numbers is None or (int(numbers[1]), int(numbers[2])) >= OLDEST_SERVER


async def _invite(url: str) -> str:
    migrating.migrate(url)
    async with connected(url) as database:
        return await people.invite(database, role="admin", minutes=LINK_MINUTES)
