"""The finding about groups: what Telegram says the bot sees there, and never the token."""

from pathlib import Path

import pytest

from bot.check import probe
from bot.check.telegram_probe import (
    GUEST_FIX,
    INLINE_FIX,
    SEES_ALL,
    SEES_LITTLE,
    TOKEN_REFUSED,
    TOPICS_OFF,
    TOPICS_ON,
    probe_telegram,
)
from tests.support.telegram.server import BotApiFault, ScriptedBotApi


async def test_privacy_mode_is_said_with_what_changes_it() -> None:
    api = ScriptedBotApi()
    async with api.serve_on_loopback() as url:
        bot_url = f"{url}/bot{api.token}"
        finding, topics = await probe_telegram(bot_url)
        assert (topics.name, topics.status, topics.seen) == ("topics", "pass", TOPICS_ON)
        assert (finding.name, finding.status, finding.seen) == ("groups", "pass", SEES_LITTLE)
        assert "/setprivacy" in finding.seen
        api.change_bot(can_read_all_group_messages=True, has_topics_enabled=False)
        finding, topics = await probe_telegram(bot_url)
        assert (finding.seen, topics.seen) == (SEES_ALL, TOPICS_OFF)
        api.inject_fault(BotApiFault.server_error(), "getMe")
        [finding] = await probe_telegram(bot_url)
        assert finding.status == "unknown"
        [refused] = await probe_telegram(f"{url}/bot1:wrong")
        assert (refused.status, refused.seen) == ("fail", TOKEN_REFUSED)
    [absent] = await probe_telegram("http://127.0.0.1:9/bot1:secret", guest_mode=True)
    assert absent.status == "unknown"
    assert "secret" not in absent.seen


async def test_guest_mode_is_judged_where_it_is_on() -> None:
    api = ScriptedBotApi()
    judged = []
    async with api.serve_on_loopback() as url:
        for change in ({}, {"supports_guest_queries": True}, {"supports_inline_queries": True}):
            api.change_bot(**change)
            *_, finding = await probe_telegram(f"{url}/bot{api.token}", guest_mode=True)
            judged.append((finding.name, finding.status, finding.mend))
    assert judged == [
        ("guest mode", "fail", GUEST_FIX),
        ("guest mode", "pass", None),
        ("guest mode", "warn", INLINE_FIX),
    ]


def test_telegram_is_asked_where_the_settings_name_a_bot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TELEGRAM_TOKEN", "TELEGRAM_API_URL", "MODEL_URL"):
        monkeypatch.delenv(name, raising=False)
    env = tmp_path / ".env"
    env.write_text("MODEL_URL=http://gpu:8000\nTELEGRAM_TOKEN=1234567890:AAE-rest-of-the-token\n")
    options = probe.resolve_options(None, None, env)
    assert options.bot_url == "https://api.telegram.org/bot1234567890:AAE-rest-of-the-token"
    assert "AAE" not in repr(options)
    assert probe.resolve_options("http://other:1", None, env).bot_url is None
