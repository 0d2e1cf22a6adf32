"""Five tools that a gateway might be given, for the size of a prompt only; they do nothing."""

from typing import Literal

from tools.base import Tool, tool
from tools.registry import discover


@tool
def weather(place: str, days: int = 1) -> None:
    """Weather now and the days to come.

    Args:
        place: City or region.
        days: How many days ahead, at most seven.
    """


@tool
def search_web(query: str, newest: bool = False) -> None:
    """Search the web and get titles, addresses and short extracts.

    Args:
        query: What to look for, in a few words.
        newest: Whether the newest pages come first.
    """


@tool
def convert_currency(amount: float, source: str, target: str) -> None:
    """Convert money at today's rate.

    Args:
        amount: How much.
        source: Three letters, such as EUR.
        target: Three letters, such as JPY.
    """


@tool
def remind_me(when: str, text: str, repeat: Literal["never", "daily", "weekly"] = "never") -> None:
    """Write to this chat at a later time.

    Args:
        when: Date and time with zone, ISO 8601.
        text: What to say then.
        repeat: How often.
    """


@tool
def create_issue(project: str, title: str, body: str) -> None:
    """Open an issue in a project's tracker.

    Args:
        project: Owner and name, such as acme/site.
        title: One line.
        body: What is wrong and what was expected, in Markdown.
    """


SAMPLE_TOOLS: tuple[Tool, ...] = (weather, search_web, convert_currency, remind_me, create_issue)


def discover_with_samples() -> tuple[Tool, ...]:
    """The built-in tools and these.

    `remind_me` replaces `schedule`, since the cases were recorded with it.
    """
    return (*(tool for tool in discover() if tool.name != "schedule"), *SAMPLE_TOOLS)
