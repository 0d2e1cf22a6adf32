"""Documents of real services (tests/fixtures/openapi): every operation of them can be used."""

import functools
import re
from pathlib import Path
from typing import Any

import pytest

from bot.tool_registry.operation_search import DocumentOperation, search_operations
from tests.bench.policies.told_judgement import find_gaps
from tools.arguments import check_arguments
from tools.http.requests import build_request
from tools.http.routes import route_from_json
from tools.http.service import FixedArgument, HttpRequest, HttpService
from tools.http.tools import make_route_tool
from tools.openapi import worker
from tools.schemas.told_schema import MAX_TOLD_CHARS, build_told_schema

FOLDER = Path(__file__).parents[2] / "fixtures" / "openapi"
DOCUMENTS = sorted(FOLDER.glob("*.json"))
URL = "https://documents.test/openapi.json"
ACCOUNT = f"AC{7:032}"


@functools.cache
def read_routes(path: Path) -> dict[str, Any]:
    """The routes to all operations of a document, and why others cannot be used."""
    body = path.read_bytes()
    server = {"base_url": "https://jira.test"} if path.stem == "jira" else None  # its own is an example
    outline = worker.outline_document(body, URL, server)
    operations = [summary["operation"] for summary in outline["operations"]]
    return worker.build_picked_routes(body, URL, operations, "", server)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_every_operation_of_a_real_document_can_be_used(path):
    result = read_routes(path)
    assert len(result["routes"]) >= 5
    assert result["left_out"] == {}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_no_required_name_and_no_choice_of_a_real_operation_is_kept_from_the_model(path):
    for route in read_routes(path)["routes"]:
        told = build_told_schema(route["checked"]).schema
        assert len(str(told)) <= MAX_TOLD_CHARS
        assert list(find_gaps(route["checked"], told)) == [], route["name"]


def tell(document: str, operation: str) -> dict[str, Any]:
    """What the model is told of an operation's arguments."""
    routes = {route["operation"]: route for route in read_routes(FOLDER / f"{document}.json")["routes"]}
    return build_told_schema(routes[operation]["checked"]).schema


def test_the_fields_of_a_large_body_are_arguments_of_their_own():
    told = tell("twilio", "CreateMessage")
    assert {"To", "From", "Body", "MediaUrl", "MessagingServiceSid"} <= set(told["properties"])
    assert told["required"] == ["AccountSid"]


def test_many_choices_are_told_cut_and_in_words():
    body = tell("stripe", "PostWebhookEndpoints")["properties"]["body"]
    assert body["required"] == ["enabled_events", "url"]
    events = body["properties"]["enabled_events"]
    assert "one of *, account.application.authorized, " in events["items"]["description"]
    assert re.search(r" and \d+ more$", events["items"]["description"])


def test_kinds_of_a_real_choice_are_all_told():
    rules = tell("github", "repos/create-repo-ruleset")["properties"]["rules"]["items"]
    kinds = rules["properties"]["type"]
    assert {"creation", "pull_request", "required_status_checks"} <= set(kinds["enum"])


def build_request_of(
    document: str, operation: str, fixed: dict[str, str], **arguments: object
) -> HttpRequest:
    """The request of a real operation, with arguments that an admin has fixed."""
    routes = {route["operation"]: route for route in read_routes(FOLDER / f"{document}.json")["routes"]}
    route = route_from_json(routes[operation])
    service = HttpService(
        document,
        frozenset({route.host}),
        fixed={name: FixedArgument(name, text, text) for name, text in fixed.items()},
    )
    tool = make_route_tool(route, service)
    assert not set(fixed) & set(tool.input_schema["properties"])
    checked = check_arguments(tool, arguments)
    return build_request(route, {**checked, **fixed}, "key")


def test_twilio_sends_a_message_for_a_fixed_account():
    request = build_request_of(
        "twilio", "CreateMessage", {"AccountSid": ACCOUNT}, To="+4912345", From="+491", Body="Hi & bye"
    )
    assert request.url == f"https://api.twilio.com/2010-04-01/Accounts/{ACCOUNT}/Messages.json"
    assert request.body is not None
    assert sorted(request.body.split(b"&")) == [b"Body=Hi%20%26%20bye", b"From=%2B491", b"To=%2B4912345"]


def test_twilio_lists_messages_between_two_dates():
    request = build_request_of(
        "twilio", "ListMessage", {"AccountSid": ACCOUNT}, DateSent_gt="2026-01-01", DateSent_lt="2026-02-01"
    )
    assert request.url.endswith("Messages.json?DateSent%3C=2026-02-01&DateSent%3E=2026-01-01")


def test_kubernetes_merges_what_is_patched():
    request = build_request_of(
        "kubernetes",
        "patchCoreV1NamespacedConfigMap",
        {"namespace": "home"},
        name="lamp",
        body={"data": {"a": "on"}},
    )
    assert request.url == "https://kubernetes.local/api/v1/namespaces/home/configmaps/lamp"
    assert request.headers["Content-Type"] == "application/merge-patch+json"
    assert request.body == b'{"data":{"a":"on"}}'


@pytest.mark.parametrize(
    ("document", "words", "first"),
    [
        ("github", "create issue", "issues/create"),
        ("stripe", "refunds", "PostRefunds"),
        ("asana", "search tasks", "searchTasksForWorkspace"),
        ("twilio", "send message", "CreateMessage"),
        ("netbox", "devices list", "dcim_devices_list"),
        ("jira", "add comment", "addComment"),
    ],
)
def test_an_operation_is_found_by_words(document, words, first):
    server = {"base_url": "https://service.test"}
    outline = worker.outline_document((FOLDER / f"{document}.json").read_bytes(), URL, server)
    operations = [DocumentOperation(**fields) for fields in outline["operations"]]
    assert operations[search_operations(operations, words)[0]].operation == first
