"""No text of a person, a page, a tool or the model holds up the event loop.

Each parser that meets such text, there or in a thread, gets every text of SHAPES. Its processor time is
compared with its own for a quarter of the text, since quadratic work takes sixteen times as long, and with a
plain loop of the same run. Where a quarter is so quick that even quadratic work would be allowed, only
some shapes are tried whole. A new parser is a line of PARSERS.
"""

import asyncio
import contextlib
import gc
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any

import pytest
from mcp_types import BlobResourceContents, TextResourceContents

from bot.agent import (
    approval_prompt,
    argument_urls,
    leaked_calls,
    notices,
    prompt,
    reply_parser,
    sanitize,
    urls,
)
from bot.agent.taint import TaintState, has_free_text
from bot.agent.text_search import find_passages
from bot.agent.thinking_policy import ThinkingEvidence, decide_thinking
from bot.agent.tool_matching.features import extract_features
from bot.agent.tool_matching.index import build_index
from bot.agent.tool_matching.ranking import rank_tools
from bot.agent.tool_search import SearchableTools
from bot.attachments.excerpts import shorten_text
from bot.attachments.outgoing_files import prepare_file
from bot.chat.commands import sign_in, strangers
from bot.chat.export_writer import fence, quote
from bot.chat.unaddressed_messages import describe_group_message
from bot.db.people.group_texts import StoredText
from bot.db.people.groups import Group
from bot.domain import AnswerLinks, Message, ToolCall
from bot.errors import ChangeRefused
from bot.jobs.times.parser import parse_line
from bot.jobs.times.reader import parse_when
from bot.jobs.times.zones import UnclearTime
from bot.llm.address_question import describe_message
from bot.llm.search_questions import describe_passages
from bot.settings.names import list_misspelled_variables
from bot.telegram.delivery.renderer import MAX_DIRECT_CHARS, Snapshot, render_snapshot
from bot.telegram.formatting.answer_links import mark_sources, may_have_links
from bot.telegram.formatting.autolinks import find_addresses, keep_known_links
from bot.telegram.formatting.block_files import build_block_files
from bot.telegram.formatting.render import clean_text
from bot.telegram.formatting.speech_text import build_speech_text
from bot.telegram.formatting.splitter import Piece
from bot.telegram.incoming import verdicts
from bot.telegram.incoming.attachments import clean_name
from bot.telegram.incoming.backlog import build_waiting_message, shorten_refused
from bot.telegram.incoming.envelope import read_envelope
from bot.telegram.incoming.group_address import (
    GroupIdentity,
    cut_leading_mention,
    find_address,
    find_speaker_name,
)
from bot.telegram.incoming.prompt_text import format_message
from bot.telegram.incoming.shared_items import format_shared_item
from bot.telegram.incoming.update import to_display_name
from bot.tool_registry import rule_parser, secret_scanner
from bot.tool_registry.admin_actions import parse_reduction
from bot.tool_registry.toolbox import Toolbox
from bot.translations.translator import ENGLISH
from bot.turns.redaction import redact
from bot.turns.said_before import build_block
from tests.support.groups import build_directory, read_private_envelope
from tests.support.hostile_texts import SHAPES, Shape
from tests.support.offered_tools import TOOLS, make_reply
from tests.tool_registry.test_toolbox import CONTEXT
from tools.arguments import ArgumentsRefused, check_arguments
from tools.base import Tool, ToolContext, ToolError
from tools.builtin.ask import parse_question
from tools.http.responses import find_file, render_response
from tools.http.service import HttpResponse
from tools.mcp.elicitation import ElicitationRefused, parse_form
from tools.mcp.results import to_found_contents
from tools.net.readable import is_html_start
from tools.reduction.expressions import MAX_EXPRESSION_CHARS
from tools.safety import control_tokens, injection
from tools.search.engine import Hit
from tools.search.hits import format_hits, parse_hits

Parse = Callable[[str], object]

MESSAGE_CHARS = 4096  # of what a person can write in one message
LONG_CHARS = 65_536  # of what a page, a file, a tool or the model may give
NOW = 1_800_000_000.0  # epoch seconds
LOOP_STEPS = 800_000  # of a plain loop that takes about the 20 ms that a parser may take
THREAD_LOOPS = 15  # times as long may work in a thread take
SLACK = 2  # times as long: a busy machine is not slow evenly
WHOLE_EVERY = 12  # of the shapes, one is tried whole in any case
MAX_RATIO = 8  # times the cost of a quarter of the text; linear work takes 4, quadratic work 16
NOISE_SHARE = 0.25  # of what is allowed; less is harmless however it grows, as texts have a longest length
QUADRATIC_RATIO = 16
MAX_TRIES = 40  # of each text: a neighbour may take the processor for several in a row


@dataclass(frozen=True, slots=True)
class Parser:
    """A function that meets text of others, `max_chars` at most; on the event loop unless `in_thread`."""

    name: str
    parse: Parse
    max_chars: int = LONG_CHARS
    in_thread: bool = False


LONG_TABLE = "|a|b|\n|-|-|\n" + "|c|d|\n" * 650  # a shorter one is no file
TOOL_INDEX = build_index(TOOLS.values())
ADDRESSES = [f"https://example.com/{number}" for number in range(40)]
EVIDENCE = ThinkingEvidence(recent_tools=("get_weather",), was_thinking=True)


def _parse_reply(finish: str) -> Parse:
    return lambda text: reply_parser.parse_reply(make_reply(text, finish=finish), TOOLS)


def _parse_call(name: str, arguments: str) -> object:
    return reply_parser.parse_reply(make_reply("", ToolCall("a", name, arguments)), TOOLS)


NUMBER_LIST_OR_TEXT = {
    "anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "string"}}, {"type": "string"}]
}
MANY_CHOICES = [f"one of the many choices, number {number}" for number in range(1000)]


def _check_argument(schema: dict[str, Any], value: object) -> object:
    arguments = {"type": "object", "properties": {"x": schema}}
    try:
        return check_arguments(Tool("made", "A tool.", arguments, _do_nothing), {"x": value})
    except ArgumentsRefused as refused:
        return str(refused)


async def _do_nothing(arguments: object, context: object) -> None:
    """No tool is run here."""


def _ask(text: str) -> object:
    arguments = json.dumps({"text": text})
    question = approval_prompt.ApprovalPrompt("send", arguments, "Anna", 1, "", None, is_for_admins=False)
    return approval_prompt.render_question(ENGLISH, question, 1)


def _render(text: str) -> object:
    return render_snapshot(Snapshot(text, "Waiting."), {})


def _mark_sources(text: str) -> object:
    return mark_sources(clean_text(text), AnswerLinks(set, set, dict.fromkeys(range(1, 25), ADDRESSES[0])))


def _keep_known_links(text: str) -> object:
    bold = [{"type": "bold", "offset": offset, "length": 10} for offset in range(0, 1000, 20)]
    return keep_known_links(Piece(clean_text(text), (*bold,)), ADDRESSES)


def _parse_rule(text: str) -> object:
    try:
        return rule_parser.parse_rule(text)
    except ChangeRefused:
        return None


def _run_tool(text: str) -> object:
    async def give_long_result(arguments: Mapping[str, object], context: ToolContext) -> object:
        return text * 32

    long_tool = Tool("long", "Give a long result.", {}, give_long_result)
    return asyncio.run(Toolbox([long_tool]).run(ToolCall("call", "long", "{}"), {}, CONTEXT))


def _render_response(text: str, kind: str = "application/json") -> object:
    body = f"[{text}]".encode("utf-8", "replace")
    headers = {"content-type": kind}
    return render_response(HttpResponse("", 200, "OK", headers, body, is_complete=True), "shop", "GET")


def _find_served_file(text: str) -> None:
    text = text.encode(errors="replace").decode()
    for disposition in (text, f"attachment; filename={text}", f"attachment; filename*=UTF-8''{text}"):
        headers = {"content-type": text, "content-disposition": disposition}
        find_file(HttpResponse("https://a.example/b", 200, "OK", headers, b"c", is_complete=True))


def _read_resource(text: str) -> None:
    to_found_contents([TextResourceContents(uri=text, text=text)], delivers=True)
    to_found_contents([BlobResourceContents(uri=text, blob=text)], delivers=True)


def _parse_time(text: str) -> object:
    with contextlib.suppress(UnclearTime):
        return parse_when(text, "Europe/Berlin", NOW, 60)
    return None


def _parse_reminder(text: str) -> object:
    with contextlib.suppress(UnclearTime):
        return parse_line(text, "Europe/Berlin", NOW, 60)
    return None


def _describe_group_message(text: str) -> object:
    message = _build_message(text) | {"message_id": 2}
    identity = build_directory().get_identity(1)
    return describe_message(describe_group_message(message, identity, [text] * 50))


def _build_message(text: str) -> dict[str, object]:
    person = {"id": 1, "first_name": text}
    replied = {"text": text, "from": person}
    chat = {"id": 1, "type": "private"}
    return {"text": text, "from": person, "chat": chat, "reply_to_message": replied, "forward_origin": person}


def _read_group_message(text: str) -> None:
    entities = [{"type": "mention", "offset": offset, "length": 11} for offset in range(0, 4000, 40)]
    person = {"id": 1, "first_name": text}
    message = {"chat": {"id": -5}, "from": person, "text": text, "entities": entities}
    identity = GroupIdentity(42, "canvas_bot", frozenset(), name="Canvas")
    find_address(message, identity)
    cut_leading_mention(message, identity)
    find_speaker_name(message)


def _read_along(text: str) -> None:
    groups = build_directory()
    groups.remember(Group(-5, "Family", "in", 1.0, reads_along=True))
    message = {"message_id": 1, "chat": {"id": -5, "type": "group"}, "from": {"id": 1}, "text": text}
    update = read_envelope({"update_id": 1, "message": message}, 1.0, groups)
    assert update is not None
    build_block([StoredText(number, "Ann", text[:90], 1.0) for number in range(50)], UTC)


def _read_reaction(text: str) -> None:
    reactions = [{"type": "emoji", "emoji": f"{text}\ufe0f"}] * 1000
    verdicts.changes_verdict({"user": {}, "old_reaction": reactions, "new_reaction": text})
    verdicts.judge_reactions(reactions)


def _describe_shared_items(text: str) -> None:
    poll = {"question": text, "options": [{"text": text}] * 100}
    contact = {"first_name": text, "last_name": text, "phone_number": text}
    for fields in ({"poll": poll}, {"contact": contact}, {"venue": {"title": text, "address": text}}):
        format_shared_item(fields)


def _parse_question(text: str) -> None:
    with contextlib.suppress(ToolError):
        parse_question(text)


def _parse_form(text: str) -> None:
    with contextlib.suppress(ElicitationRefused):
        parse_form(text, {"properties": {"a": {"title": text, "description": text}}})


def _parse_reduction(text: str) -> None:
    for expression in (text, text[:MAX_EXPRESSION_CHARS]):
        with contextlib.suppress(ChangeRefused):
            parse_reduction(expression)


PARSERS = (
    Parser("search hits", lambda text: format_hits([Hit(text, f"https://a.example/{text}", text)] * 50)),
    Parser("shown hits", parse_hits),
    Parser("addresses of an answer", lambda text: list(find_addresses(text))),
    Parser("signs of links", may_have_links),
    Parser("links of a message", _keep_known_links, MESSAGE_CHARS),
    Parser("sources of a short answer", _mark_sources, MAX_DIRECT_CHARS),
    Parser("sources of an answer", _mark_sources, in_thread=True),
    Parser("what is exported", lambda text: quote(fence(text)), in_thread=True),
    Parser("what is read out", build_speech_text, in_thread=True),
    Parser("known addresses", lambda text: TaintState(texts=[text]).find_known(ADDRESSES), in_thread=True),
    Parser("words of a result", has_free_text),
    Parser("passages to read", lambda text: describe_passages(text, [text[:2000]] * 20)),
    Parser("group message", _describe_group_message, MESSAGE_CHARS),
    Parser("thinking", lambda text: decide_thinking([text], TOOL_INDEX, EVIDENCE)),
    Parser("ranking", lambda text: rank_tools(extract_features(text), TOOL_INDEX, 5)),
    Parser("reply", _parse_reply("stop")),
    Parser("cut reply", _parse_reply("length")),
    Parser("repeating reply", _parse_reply("repetition")),
    Parser("partial reply", reply_parser.extract_visible_text),
    Parser("outgoing file", lambda text: prepare_file(text, text.encode(errors="replace"), text)),
    Parser("sign-in", sign_in.is_answer),
    Parser("code of a stranger", strangers.is_code),
    Parser("name of a setting", lambda text: list_misspelled_variables([text.upper()], {"MODEL_SEATS"})),
    Parser(
        "sign-in address", lambda text: sign_in.is_answer(f"/tools signin notes http://a.example/?{text}")
    ),
    Parser("question of a server", _parse_form),
    Parser("question of the model", _parse_question),
    Parser("reasoning", lambda text: reply_parser.parse_reply(make_reply(reasoning=text), TOOLS)),
    Parser("leaked calls", lambda text: leaked_calls.find_leaked_calls(text, tuple(TOOLS))),
    Parser("call name", lambda text: _parse_call(text, "{}")),
    Parser("call", lambda text: _parse_call("get_weather", text)),
    Parser("argument", lambda text: _parse_call("get_weather", json.dumps({"city": text}))),
    Parser("argument of any type", lambda text: _check_argument({"type": "object"}, {"any": text})),
    # A text that is a list is read as one, entry by entry; no call of a model is longer.
    Parser("argument of a choice", lambda text: _check_argument(NUMBER_LIST_OR_TEXT, text), MESSAGE_CHARS),
    Parser("wrong choice", lambda text: _check_argument({"enum": MANY_CHOICES}, text)),
    Parser("unknown argument", lambda text: _parse_call("get_weather", json.dumps({text: 1}))),
    Parser("sendable", sanitize.to_sendable),
    Parser("control tokens", sanitize.strip_control_tokens),
    Parser("broken tokens", control_tokens.break_control_tokens),
    Parser("URL", lambda text: urls.find_urls_in_text(["https://example.com/secret"], text)),
    Parser("escaped URL", lambda text: urls.find_urls_in_text(["https://example.com/sécret"], text)),
    Parser("URL of a host", lambda text: urls.find_urls_in_text(["https://example.com"], text)),
    Parser("repeated URL", lambda text: urls.is_url_prefix_in_text("https://example.com/secrets", text)),
    Parser("address in an argument", lambda text: list(argument_urls.list_addresses({"q": text}, None))),
    Parser("address as an argument", lambda text: list(argument_urls.list_addresses({"urls": text}, None))),
    Parser("name of an argument", lambda text: list(argument_urls.list_addresses({text: "a.b"}, None))),
    Parser("other address", lambda text: urls.is_address_in_text("demo://secret", text)),
    Parser("data block", lambda text: prompt.build_data_block(text, text)),
    Parser("data marks", prompt.strip_data_marks),
    Parser("files", prompt.strip_files),
    Parser("reduction", _parse_reduction),
    Parser("prompt", lambda text: prompt.build_prompt("", [], [Message("user", text)])),
    Parser("instructions", lambda text: prompt.build_system_text("", text), MESSAGE_CHARS),
    Parser("redaction", lambda text: redact([Message("system", ""), Message("user", text)], ())),
    Parser("code blocks", notices.close_code_block),
    Parser("tool progress", lambda text: notices.format_tool_progress("docs", text)),
    Parser("question", _ask),
    Parser("excerpt", lambda text: shorten_text(text, 2000)),
    Parser("start of a web page", is_html_start),
    Parser("file name", clean_name, MESSAGE_CHARS),
    Parser("person", lambda text: to_display_name(text, 1), MESSAGE_CHARS),
    Parser(
        "envelope", lambda text: read_private_envelope({"update_id": 1, "message": _build_message(text)}, 1.0)
    ),
    Parser(
        "edit",
        lambda text: read_private_envelope({"update_id": 1, "edited_message": _build_message(text)}, 1.0),
    ),
    Parser("group message", _read_group_message),
    Parser("group text", _read_along),
    Parser(
        "refused message", lambda text: shorten_refused({"update_id": 1, "message": _build_message(text)})
    ),
    Parser("reaction", _read_reaction),
    Parser("waiting message", lambda text: build_waiting_message(_build_message(text), "1")),
    Parser("message", lambda text: format_message(_build_message(text)), MESSAGE_CHARS),
    Parser("shared item", _describe_shared_items),
    Parser("rule", _parse_rule, MESSAGE_CHARS),
    Parser("secrets", secret_scanner.has_likely_secret, MESSAGE_CHARS),
    Parser("secret argument", secret_scanner.mask_secrets, MESSAGE_CHARS),
    Parser("secret name", secret_scanner.is_secret_name, MESSAGE_CHARS),
    Parser("injection", injection.find_injection_warnings, MESSAGE_CHARS),
    Parser("neutral text", injection.neutralize),
    Parser("tool search", SearchableTools(TOOLS.values()).find),
    Parser("long result", _run_tool),
    Parser("answer of a service", _render_response),
    Parser("lines of a service", lambda text: _render_response(text, "application/x-ndjson")),
    Parser("long answer of a service", lambda text: _render_response(text * 32)),
    Parser("file of a service", _find_served_file),
    Parser("resource of a server", _read_resource),
    Parser("searched text", lambda text: find_passages("dinner with Anna", [text])),
    Parser("searched words", lambda text: find_passages(text, ["dinner with Anna"])),
    Parser("time in words", _parse_time, MESSAGE_CHARS),
    Parser("reminder", _parse_reminder, MESSAGE_CHARS),
    Parser("short Markdown", _render, MAX_DIRECT_CHARS),
    Parser("Markdown", _render, in_thread=True),
    Parser("long code", lambda text: build_block_files(f"```{text}\n{text}\n```"), in_thread=True),
    Parser("long table", lambda text: build_block_files(LONG_TABLE + text), in_thread=True),
)


def _measure(parse: Parse, text: str) -> float:
    """Processor seconds of one call in this thread, without the garbage of all tests before."""
    gc.disable()
    start = time.thread_time()
    parse(text)
    gc.enable()
    return time.thread_time() - start


def _measure_loop() -> float:
    """Processor seconds of a plain loop: how fast this machine is now."""

    def count(text: str) -> int:
        return sum(1 for _ in range(LOOP_STEPS) if text)

    return min(_measure(count, "a") for _ in range(3))


@pytest.fixture(scope="module")
def loop_seconds() -> float:
    """Measured once, since it takes longer than most parsers; a parser that seems slow measures it again."""
    return min(_measure_loop() for _ in range(3))


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_no_text_of_others_holds_up_the_event_loop(parser: Parser, loop_seconds: float) -> None:
    parser.parse("a first text loads word lists and compiles patterns")
    gc.collect()
    slow = [
        (shape, chars)
        for number, shape in enumerate(SHAPES)
        for chars in {MESSAGE_CHARS, parser.max_chars}
        if not _is_fast(parser, shape, chars, loop_seconds, is_tried_whole=number % WHOLE_EVERY == 0)
    ]
    assert not slow


def _is_fast(parser: Parser, shape: Shape, chars: int, loop_seconds: float, *, is_tried_whole: bool) -> bool:
    """Whether a text takes no more than what is allowed and than linear work; of several tries, for noise."""
    text = shape.build(chars)
    quarter = shape.build(chars // 4)
    for _ in range(MAX_TRIES):
        allowed = SLACK * loop_seconds * (THREAD_LOOPS if parser.in_thread else 1)
        quarter_cost = _measure(parser.parse, quarter)
        if not is_tried_whole and QUADRATIC_RATIO * quarter_cost < allowed:
            return True
        cost = _measure(parser.parse, text)
        is_linear = cost < NOISE_SHARE * allowed or cost < MAX_RATIO * quarter_cost
        if is_linear and cost < allowed:
            return True
        loop_seconds = max(loop_seconds, _measure_loop())
    return False
