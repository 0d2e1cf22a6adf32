"""Asks Telegram what the bot sees in groups, and says it as one more finding of a check."""

import httpx

from bot.check.findings import Finding, Verdict, fail_verdict, pass_verdict, unknown_verdict

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
_REFUSED = frozenset({401, 404})


async def probe_telegram(bot_url: str) -> Finding:
    """Ask once; `bot_url` ends in the bot's token, which no finding shows."""
    verdict = await _judge(bot_url)
    return Finding(NAME, verdict.status, verdict.seen, MEANING, verdict.mend)


async def _judge(bot_url: str) -> Verdict:
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as http:
            response = await http.get(f"{bot_url}/getMe")
        body = response.json()
    except (httpx.HTTPError, ValueError) as error:
        return unknown_verdict(f"Telegram does not answer ({type(error).__name__})")
    if response.status_code in _REFUSED:
        return fail_verdict(TOKEN_REFUSED, TOKEN_FIX)
    match body:
        case {"ok": True, "result": {"can_read_all_group_messages": bool(sees_all)}}:
            return pass_verdict(SEES_ALL if sees_all else SEES_LITTLE)
    return unknown_verdict(f"Telegram does not say it (HTTP {response.status_code})")
