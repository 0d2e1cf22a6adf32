"""The settings: each with its name, default, bounds and one line of help. Only they read the environment."""

from bot.settings.settings import (
    NO_BOT_TOKEN,
    SYSTEM_PROMPT,
    Settings,
    build_settings,
    describe_proxy,
    find_journal,
    format_example,
    list_ignored_names,
    load_settings,
    reveal,
)

__all__ = (
    "NO_BOT_TOKEN",
    "SYSTEM_PROMPT",
    "Settings",
    "build_settings",
    "describe_proxy",
    "find_journal",
    "format_example",
    "list_ignored_names",
    "load_settings",
    "reveal",
)
