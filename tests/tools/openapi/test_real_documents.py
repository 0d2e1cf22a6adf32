"""Documents of real services (tests/fixtures/openapi): every operation of them can be used."""

import re
from pathlib import Path
from typing import Any

import pytest

from bot.bench.policies.told_judgement import find_gaps
from tools.openapi import worker
from tools.schemas.told_schema import MAX_TOLD_CHARS, build_told_schema

FOLDER = Path(__file__).parents[2] / "fixtures" / "openapi"
DOCUMENTS = sorted(FOLDER.glob("*.json"))
URL = "https://documents.test/openapi.json"


def read_routes(path: Path) -> dict[str, Any]:
    """The routes to all operations of a document, and why others cannot be used."""
    body = path.read_bytes()
    operations = [summary["operation"] for summary in worker.outline_document(body, URL)["operations"]]
    return worker.build_picked_routes(body, URL, operations, "")


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
