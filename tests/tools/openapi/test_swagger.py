"""Documents of Swagger 2.0 are read as those of OpenAPI 3."""

import json
from typing import Any

import pytest

from tools.http.requests import build_request
from tools.http.routes import HttpRoute, route_from_json
from tools.openapi import worker

URL = "https://git.test/swagger.v1.json"
GIT: dict[str, Any] = {
    "swagger": "2.0",
    "info": {"title": "Git", "version": "1"},
    "host": "git.test",
    "basePath": "/api/v1",
    "schemes": ["http", "https"],
    "consumes": ["application/json"],
    "securityDefinitions": {
        "Token": {"type": "apiKey", "in": "query", "name": "token"},
        "Basic": {"type": "basic"},
    },
    "parameters": {
        "Limit": {
            "name": "limit",
            "in": "query",
            "type": "integer",
            "minimum": 1,
            "description": "How many.",
        },
        "Body": {"name": "issue", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Issue"}},
    },
    "definitions": {
        "Issue": {
            "type": "object",
            "required": ["title"],
            "properties": {
                "title": {"type": "string"},
                "labels": {"type": "array", "items": {"type": "integer"}},
            },
        }
    },
    "paths": {
        "/repos/{owner}/issues": {
            "parameters": [{"name": "owner", "in": "path", "required": True, "type": "string"}],
            "get": {
                "operationId": "listIssues",
                "parameters": [
                    {"$ref": "#/parameters/Limit"},
                    {"name": "state", "in": "query", "type": "array", "items": {"type": "string"}},
                    {
                        "name": "by",
                        "in": "query",
                        "type": "array",
                        "items": {"type": "string"},
                        "collectionFormat": "multi",
                    },
                    {"name": "token", "in": "query", "type": "string"},
                ],
            },
            "post": {"operationId": "createIssue", "parameters": [{"$ref": "#/parameters/Body"}]},
            "patch": {
                "operationId": "edit",
                "consumes": ["application/x-www-form-urlencoded"],
                "parameters": [
                    {"name": "title", "in": "formData", "type": "string", "required": True},
                    {"name": "ids", "in": "formData", "type": "array", "items": {"type": "integer"}},
                ],
            },
            "put": {
                "operationId": "attach",
                "parameters": [
                    {"name": "attachment", "in": "formData", "type": "file", "description": "What to add."}
                ],
            },
        }
    },
}


def read(document: dict[str, Any] = GIT) -> tuple[dict[str, Any], dict[str, HttpRoute]]:
    body = json.dumps(document).encode()
    outline = worker.outline_document(body, URL)
    picked = [operation["operation"] for operation in outline["operations"]]
    result = worker.build_picked_routes(body, URL, picked, "")
    assert result["left_out"] == {}
    return outline, {route["operation"]: route_from_json(route) for route in result["routes"]}


def test_a_document_is_listed_with_what_it_wants():
    outline, routes = read()
    assert list(routes) == ["listIssues", "createIssue", "attach", "edit"] or set(routes) == {
        *("listIssues", "createIssue", "edit", "attach")
    }
    assert [need["text"] for need in outline["needs"]] == [
        "a key in the query `token`",
        "a name and a password",
    ]
    assert routes["listIssues"].address == "https://git.test/api/v1/repos/{owner}/issues"
    assert set(routes["listIssues"].checked["properties"]) == {"owner", "limit", "state", "by"}


@pytest.mark.parametrize(
    ("operation", "arguments", "url", "body"),
    [
        (
            "listIssues",
            {"state": ["a", "b"], "by": ["c", "d"], "limit": 2},
            "?limit=2&state=a,b&by=c&by=d",
            None,
        ),
        ("createIssue", {"title": "T", "labels": [1]}, "", b'{"title":"T","labels":[1]}'),
        ("edit", {"title": "T", "ids": [1, 2]}, "", b"title=T&ids=1,2"),
    ],
)
def test_calls_are_written_as_the_document_says(operation, arguments, url, body):
    _, routes = read()
    request = build_request(routes[operation], {"owner": "ann", **arguments}, "key")
    assert request.url == f"https://git.test/api/v1/repos/ann/issues{url}"
    assert request.body == body


def test_a_file_is_a_part_of_a_form():
    _, routes = read()
    attach = routes["attach"]
    assert attach.checked["properties"]["attachment"]["description"] == "What to add (the text of the file)"
    request = build_request(attach, {"owner": "ann", "attachment": "words"}, "key")
    assert request.headers["Content-Type"].startswith("multipart/form-data; boundary=")
    assert request.body is not None
    assert b'name="attachment"; filename="attachment.txt"' in request.body


@pytest.mark.parametrize(
    ("part", "value"),
    [
        (part, value)
        for part in (
            "info",
            "host",
            "basePath",
            "schemes",
            "consumes",
            "securityDefinitions",
            "parameters",
            "definitions",
            "paths",
        )
        for value in (
            None,
            1,
            "x",
            [],
            [1],
            {},
            {"x": 1},
            {"x": [None]},
            {"/x": {"get": {"parameters": [1, {"$ref": 3}]}}},
        )
    ],
)
def test_broken_parts_are_reported_and_break_nothing(part, value):
    body = json.dumps({**GIT, part: value}).encode()
    outline = worker.outline_document(body, URL)
    assert "unreadable" in outline or isinstance(outline["operations"], list)
    if outline.get("operations"):
        picked = [operation["operation"] for operation in outline["operations"]]
        assert "routes" in worker.build_picked_routes(body, URL, picked, "")
