"""The command `check`: which endpoint is meant, and the check of it from its first call to its report."""

import asyncio
from pathlib import Path

from bot.check.findings import CheckReport
from bot.check.probe import CheckOptions, CheckProgress, observe_endpoint
from bot.check.report import build_report
from bot.settings import NO_BOT_TOKEN, Settings, build_settings, load_settings


def resolve_options(endpoint: str | None, key: str | None, env_file: Path) -> CheckOptions:
    """The endpoint to check: the one named, with the key named or none, else that of the settings.

    A key of the settings is never sent to an endpoint named otherwise. Raises SettingsRefused.
    """
    if endpoint is not None:
        settings = build_settings(telegram_token=NO_BOT_TOKEN, model_url=endpoint, model_api_key=key or None)
        return CheckOptions(settings.model_url, _api_key(settings), tokens=_needed_tokens(settings))
    settings = load_settings(env_file, telegram_token=NO_BOT_TOKEN, **({"model_api_key": key} if key else {}))
    return CheckOptions(
        settings.model_url,
        _api_key(settings),
        settings.model_name,
        _needed_tokens(settings),
        settings.model_seats,
    )


async def run_check(
    options: CheckOptions, on_progress: CheckProgress, stop: asyncio.Event | None = None
) -> CheckReport:
    """Look at the endpoint and judge what was seen until `stop`; what is wrong is a finding, never an
    exception.
    """
    return build_report(await observe_endpoint(options, on_progress, stop), options.limits.max_calls)


def _api_key(settings: Settings) -> str | None:
    if settings.model_api_key:
        return settings.model_api_key.get_secret_value()
    return None


def _needed_tokens(settings: Settings) -> int:
    return settings.prompt_budget + settings.model_max_tokens
