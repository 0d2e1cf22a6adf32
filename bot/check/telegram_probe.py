"""Asks Telegram what the bot sees in groups, and whether guest mode can work: more findings of a check."""

from typing import Any

import httpx

from bot.check.findings import (
    Finding,
    Verdict,
    fail_verdict,
    pass_verdict,
    unknown_verdict,
    warn_verdict,
)
from bot.settings import describe_proxy

NAME = "groups"
MEANING = "in a group it can answer only what reaches it"
TIMEOUT_SECONDS = 10.0
SEES_ALL = "it sees every message of the groups that it was added to since privacy mode is off"
SEES_LITTLE = (
    "privacy mode is on: where it is no administrator it sees only commands and replies to it. "
    "To change that, send /setprivacy to @BotFather, then remove it from its groups and add it again"
)
TOKEN_REFUSED = "Telegram does not accept TELEGRAM_TOKEN"  # noqa: S105
TOKEN_FIX = "ask @BotFather for the token"  # noqa: S105
GUEST_NAME = "guest mode"
GUEST_MEANING = "with GUEST_MODE on it answers in chats that it is no member of"
NO_GUEST_QUERIES = "GUEST_MODE is on, but Telegram does not let this bot be asked in other chats"
GUEST_FIX = "turn guest mode on in @BotFather's Mini App, and start the gateway again"
INLINE_IS_ON = "the bot's inline mode is on: most apps then take @name for an inline query"
INLINE_FIX = "send /setinline to @BotFather and turn it off"
DOCUMENTS_NAME = "documents"
DOCUMENTS_MEANING = "files of DOCUMENTS_DIR are for everybody with access"
OPEN_DOCUMENTS = "with ACCESS=open anybody can have DOCUMENTS_DIR read, once an admin has opened it"
DOCUMENTS_FIX = "set ACCESS to pairing or allowlist, or keep nothing private there"
TOPICS_NAME = "topics"
TOPICS_MEANING = "each topic of a private chat is a conversation"
TOPICS_ON = "Threaded Mode is on: people may begin topics in their private chat"
TOPICS_OFF = (
    "Threaded Mode is off; to have topics in private chats, turn it on for the bot in @BotFather's Mini App"
)
PROXY_NAME = "proxy"
PROXY_MEANING = "TELEGRAM_PROXY is the way to Telegram alone"
PROXY_IN_USE = (
    "Calls to Telegram and its files go through {}; models, search, pages, tools and MCP servers do not"
)
PROXY_FIX = "start the proxy, or correct TELEGRAM_PROXY: address, name and password"
_NOT_SENT_ERRORS = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)
_REFUSED = frozenset({401, 404})


async def probe_telegram(
    bot_url: str, *, guest_mode: bool = False, proxy: str | None = None
) -> tuple[Finding, ...]:
    """Ask once, through `proxy` if any; `bot_url` ends in the bot's token, which no finding shows.

    `guest_mode`: whether the bot is to answer in chats that it is no member of.
    """
    answer = await _ask(bot_url, proxy)
    if isinstance(answer, Verdict):
        return (answer.to_finding(NAME, MEANING),)
    sees_all = bool(answer.get("can_read_all_group_messages"))
    finding = pass_verdict(SEES_ALL if sees_all else SEES_LITTLE).to_finding(NAME, MEANING)
    topics = pass_verdict(TOPICS_ON if answer.get("has_topics_enabled") else TOPICS_OFF)
    findings = [finding, topics.to_finding(TOPICS_NAME, TOPICS_MEANING)]
    if proxy is not None:
        in_use = pass_verdict(PROXY_IN_USE.format(describe_proxy(proxy)))
        findings.append(in_use.to_finding(PROXY_NAME, PROXY_MEANING))
    if guest_mode:
        findings.append(_judge_guest_mode(answer).to_finding(GUEST_NAME, GUEST_MEANING))
    return tuple(findings)


def judge_open_documents() -> Finding:
    """The warning that strangers may read the owner's folder, as soon as an admin opens it."""
    return warn_verdict(OPEN_DOCUMENTS, DOCUMENTS_FIX).to_finding(DOCUMENTS_NAME, DOCUMENTS_MEANING)


async def _ask(bot_url: str, proxy: str | None) -> dict[str, Any] | Verdict:
    """Return what Telegram says of the bot, or why that is unknown."""
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, proxy=proxy) as http:
            response = await http.get(f"{bot_url}/getMe")
        body = response.json()
    except (httpx.HTTPError, ValueError) as error:
        if proxy is not None and isinstance(error, _NOT_SENT_ERRORS):
            reason = str(error) if isinstance(error, httpx.ProxyError) else type(error).__name__
            return fail_verdict(f"{describe_proxy(proxy)} does not lead to Telegram ({reason})", PROXY_FIX)
        return unknown_verdict(f"Telegram does not answer ({type(error).__name__})")
    if response.status_code in _REFUSED:
        return fail_verdict(TOKEN_REFUSED, TOKEN_FIX)
    match body:
        case {"ok": True, "result": {"can_read_all_group_messages": bool()} as bot}:
            return dict(bot)
    return unknown_verdict(f"Telegram does not say it (HTTP {response.status_code})")


def _judge_guest_mode(bot: dict[str, Any]) -> Verdict:
    if not bot.get("supports_guest_queries"):
        return fail_verdict(NO_GUEST_QUERIES, GUEST_FIX)
    if bot.get("supports_inline_queries"):
        return warn_verdict(INLINE_IS_ON, INLINE_FIX)
    return pass_verdict("Telegram lets people ask the bot in chats that it is no member of")
