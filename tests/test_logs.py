"""Logs: one line a record, fields from context, and no secret in any of them."""

import asyncio
import contextlib
import io
import json
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot import logs

TOKEN = "1234567890:AAE-not-a-real-token"
KEY = 'ke"y\\with signs'


@pytest.fixture(autouse=True)
def restore_logging() -> Iterator[None]:
    """Restore the root logger after each test."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    level = root.level
    yield
    root.handlers = handlers
    root.level = level
    logging.captureWarnings(capture=False)


def configure_logs(log_format: Any) -> tuple[io.StringIO, logging.Logger]:
    stream = io.StringIO()
    logs.configure(level="INFO", format=log_format, secrets=[TOKEN, KEY, "ab"], stream=stream)
    return stream, logging.getLogger("bot.test")


def test_a_line_for_people_has_time_level_action_fields_and_message() -> None:
    stream, log = configure_logs("text")
    log.info("update %d stored", 7, extra={"action": "intake.stored", "update_id": 7})
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d INFO "
        r"intake\.stored update_id=7 \| update 7 stored\n",
        stream.getvalue(),
    )


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_lines_for_the_journal_have_their_priority(log_format: Any, tmp_path: Path) -> None:
    with (tmp_path / "journal").open("w+") as stream:
        status = os.fstat(stream.fileno())
        logs.configure("INFO", log_format, stream=stream, journal=f"{status.st_dev}:{status.st_ino}")
        log = logging.getLogger("bot.test")
        log.info("one")
        log.error("two", exc_info=ValueError("three\nfour"))
        stream.seek(0)
        first, *others = stream.read().splitlines()
    assert first.startswith("<6>")
    assert all(line.startswith("<3>") for line in others)


def test_what_the_owner_has_to_see_is_logged_at_any_level() -> None:
    stream = io.StringIO()
    logs.configure("ERROR", "json", stream=stream)
    logging.getLogger("bot.test").warning("left out")
    logs.announce("Open this link: https://t.me/my_bot?start=abc")
    [line] = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (line["action"], line["message"]) == (
        "app.announced",
        "Open this link: https://t.me/my_bot?start=abc",
    )


def test_a_line_for_machines_is_one_json_object() -> None:
    stream, log = configure_logs("json")
    log.warning("slow", extra={"action": "sender.slow", "seconds": 1.5, "part": None, "lane": "5:1"})
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "WARNING",
        "action": "sender.slow",
        "message": "slow",
        "seconds": 1.5,
        "part": None,
        "lane": "5:1",
    }


def test_a_record_without_an_action_is_named_by_its_logger() -> None:
    stream, log = configure_logs("json")
    log.info("hello")
    assert json.loads(stream.getvalue())["action"] == "bot.test"


async def test_turn_and_chat_are_bound_to_a_task_and_to_those_it_starts() -> None:
    stream, log = configure_logs("json")

    async def work(turn: int) -> None:
        with logs.bind(turn=turn):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(step(turn))
                await asyncio.sleep(0)
                log.info("outer")

    async def step(turn: int) -> None:
        with logs.bind(chat=turn * 10):
            log.info("inner")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(work(1))
        tasks.create_task(work(2))
    log.info("after")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    bound = {(line["message"], line.get("turn"), line.get("chat")) for line in lines}
    assert bound == {
        ("inner", 1, 10),
        ("inner", 2, 20),
        ("outer", 1, None),
        ("outer", 2, None),
        ("after", None, None),
    }


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_secret_is_hidden_in_every_part_of_a_record(log_format: str) -> None:
    stream, log = configure_logs(log_format)

    def call() -> None:
        raise ConnectionError(f"POST https://api.telegram.org/bot{TOKEN}/getMe", {"key": KEY})

    try:
        call()
    except ConnectionError:
        log.exception(
            "with %s and %r", TOKEN, KEY, extra={"url": f"/bot{TOKEN.replace(':', '%3A')}/", "key": KEY}
        )
    with logs.bind(bearer=KEY):
        log.info("plain", stack_info=True)
    text = stream.getvalue()
    assert "AAE-not" not in text
    assert "with signs" not in text
    assert text.count(logs.HIDDEN) >= 6
    assert "ConnectionError" in text
    assert "Stack (most recent call last)" in text


def test_a_value_too_short_to_be_a_secret_is_not_hidden() -> None:
    stream, log = configure_logs("text")
    log.info("about")
    assert stream.getvalue().endswith("| about\n")


@given(text=st.text(), key=st.sampled_from(["note", "chat"]))
def test_no_text_can_forge_a_line(text: str, key: str) -> None:
    for log_format in ("text", "json"):
        stream, log = configure_logs(log_format)
        log.info("%s", text, extra={key: text})
        assert stream.getvalue().count("\n") == 1


def test_libraries_that_log_addresses_and_texts_are_quiet_even_at_debug() -> None:
    stream = io.StringIO()
    logs.configure(level="DEBUG", stream=stream)
    for name in (
        "httpx",
        "httpx2",
        "openai._base_client",
        "telegram.Bot",
        "sqlalchemy.engine.Engine",
        "apscheduler.scheduler",
    ):
        logging.getLogger(name).info("HTTP Request: POST /bot%s/getMe", TOKEN)
        logging.getLogger(name).debug("what a person wrote")
    assert stream.getvalue() == ""
    logging.getLogger("bot").debug("ours")
    assert "ours" in stream.getvalue()


def test_libraries_do_not_log_what_servers_send_which_may_be_what_people_wrote() -> None:
    stream = io.StringIO()
    logs.configure("DEBUG", stream=stream)
    for name in ("mcp.client.streamable_http", "client", "telegram.request.BaseRequest"):
        logging.getLogger(name).critical("Failed to parse: what a stranger wrote")
    assert stream.getvalue() == ""


def test_requests_of_strangers_that_are_no_http_do_not_fill_the_log() -> None:
    stream = io.StringIO()
    logs.configure("DEBUG", stream=stream)
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    assert stream.getvalue() == ""
    logging.getLogger("uvicorn.error").error("Exception in ASGI application")
    assert "ASGI" in stream.getvalue()


def test_a_second_configuration_replaces_the_first_and_leaves_other_handlers() -> None:
    foreign_handler = logging.NullHandler()
    logging.getLogger().addHandler(foreign_handler)
    first, log = configure_logs("text")
    second, _ = configure_logs("text")
    log.info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1
    assert foreign_handler in logging.getLogger().handlers


def test_a_record_that_cannot_be_written_does_not_print_its_arguments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logging.getLogger().handlers = []  # pytest's own would raise
    stream, log = configure_logs("text")
    log.info("%d", TOKEN)
    assert "test_logs.py" in stream.getvalue()
    assert "AAE" not in stream.getvalue() + capsys.readouterr().err


def test_what_cannot_be_written_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    logging.getLogger().handlers = []
    with open("/dev/full", "w", buffering=1) as full:  # noqa: PTH123  # a disk without space
        logs.configure(stream=full)
        logging.getLogger("bot").info("here")
        with contextlib.suppress(OSError):
            full.close()
    monkeypatch.setattr("sys.stderr", None)  # as Python has it where it was closed
    logs.configure()
    logging.getLogger("bot").info("here")


def test_without_a_stream_lines_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    logging.getLogger("bot").info("here")
    assert "| here" in capsys.readouterr().err
