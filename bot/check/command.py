"""The command `check`: which endpoint is meant, and the check of it from its first call to its report."""

import asyncio
from pathlib import Path

from bot.check.findings import Report
from bot.check.probe import Progress, Wish, look
from bot.check.report import report
from bot.settings import NO_BOT, Settings, given, load


def meant(endpoint: str | None, key: str | None, env_file: Path) -> Wish:
    """The endpoint to check: the one named, with the key named or none, else that of the settings.

    A key of the settings is never sent to an endpoint named otherwise. Raises SettingsRefused.
    """
    if endpoint is not None:
        settings = given(telegram_token=NO_BOT, model_url=endpoint, model_api_key=key or None)
        return Wish(settings.model_url, _key(settings), tokens=_tokens(settings))
    settings = load(env_file, telegram_token=NO_BOT, **({"model_api_key": key} if key else {}))
    return Wish(
        settings.model_url, _key(settings), settings.model_name, _tokens(settings), settings.model_seats
    )


async def run(wish: Wish, progress: Progress, stop: asyncio.Event | None = None) -> Report:
    """Look at the endpoint and judge what was seen until `stop`; what is wrong is a finding, never an
    exception.
    """
    return report(await look(wish, progress, stop), wish.limits.calls)


def _key(settings: Settings) -> str | None:
    if settings.model_api_key:
        return settings.model_api_key.get_secret_value()
    return None


def _tokens(settings: Settings) -> int:
    return settings.prompt_budget + settings.model_max_tokens
