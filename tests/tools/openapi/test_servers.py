"""Where a document's operations are called: servers, their variables, a base URL, and examples."""

import pytest

from tools.openapi.loader import DocumentUnreadable
from tools.openapi.servers import (
    DOCUMENT_SERVERS,
    DocumentServer,
    ServerSettings,
    build_server_url,
    describe_assumptions,
)

DOCUMENT_URL = "https://docs.shop.test/openapi.json"
REGION = DocumentServer("https://{region}.shop.test/v1", {"region": "us"})


@pytest.mark.parametrize(
    ("url", "settings", "address"),
    [
        ("/v2/", DOCUMENT_SERVERS, "https://docs.shop.test/v2"),
        ("//api.shop.test", DOCUMENT_SERVERS, "https://api.shop.test"),
        ("http://localhost", DOCUMENT_SERVERS, "http://localhost"),
        ("https://mastodon.example", ServerSettings("https://social.shop.test/"), "https://social.shop.test"),
        ("/v2", ServerSettings("http://10.0.0.3:8080/api"), "http://10.0.0.3:8080/api"),
        (
            "https://api.telegram.org/bot123456:ABC",
            ServerSettings("https://api.telegram.org/bot{telegram}"),
            "https://api.telegram.org/bot{secret:telegram}",
        ),
    ],
)
def test_a_server_is_that_of_the_document_unless_an_admin_says_where_it_is(url, settings, address):
    assert build_server_url(DocumentServer(url), DOCUMENT_URL, settings) == address


@pytest.mark.parametrize(
    ("variables", "address"),
    [
        ({}, "https://us.shop.test/v1"),
        ({"region": "eu"}, "https://eu.shop.test/v1"),
    ],
)
def test_variables_have_the_value_that_was_given_or_their_default(variables, address):
    assert build_server_url(REGION, DOCUMENT_URL, ServerSettings(variables=variables)) == address


def test_a_variable_may_be_a_secret_in_the_path():
    server = DocumentServer("https://shop.test/bot{token}", {"token": "123:ABC"})
    address = build_server_url(server, DOCUMENT_URL, ServerSettings(variables={"token": "{telegram}"}))
    assert address == "https://shop.test/bot{secret:telegram}"


@pytest.mark.parametrize(
    ("server", "settings", "reason"),
    [
        (DocumentServer("https://mastodon.example"), DOCUMENT_SERVERS, "is an example: say where it is"),
        (DocumentServer("https://api.example.com/v1"), DOCUMENT_SERVERS, "is an example"),
        (DocumentServer("https://your-domain.atlassian.net"), DOCUMENT_SERVERS, "is an example"),
        (DocumentServer("https://{host}/v1"), DOCUMENT_SERVERS, "set host with --variable"),
        (DocumentServer("/v1"), ServerSettings("https://{key}.shop.test"), "cannot be used"),
        (DocumentServer("/v1"), ServerSettings("https://shop.test/?key={key}"), "has a query"),
        (DocumentServer("/v1"), ServerSettings("ftp://shop.test"), "begin with http"),
    ],
)
def test_a_server_that_cannot_be_called_is_refused_with_what_to_do(server, settings, reason):
    with pytest.raises(DocumentUnreadable, match=reason):
        build_server_url(server, DOCUMENT_URL, settings)


def test_a_relative_server_of_a_file_needs_a_base_url():
    with pytest.raises(DocumentUnreadable, match="only a path, and the document is a file"):
        build_server_url(DocumentServer("/v1"), "file:///srv/shop.yaml", DOCUMENT_SERVERS)


def test_an_example_that_serves_its_own_document_is_none():
    server = DocumentServer("https://api.example.com/v1")
    address = build_server_url(server, "https://api.example.com/openapi.json", DOCUMENT_SERVERS)
    assert address == "https://api.example.com/v1"


def test_what_is_taken_for_granted_is_said():
    assert list(describe_assumptions(REGION, DOCUMENT_URL, DOCUMENT_SERVERS)) == [
        "Its server https://{region}.shop.test/v1 has the variable region, taken to be 'us': "
        "--variable region=… sets it"
    ]
    local = list(describe_assumptions(DocumentServer("http://localhost"), DOCUMENT_URL, DOCUMENT_SERVERS))
    assert local == [
        "Its server http://localhost looks like an example: say where it is with a base URL (--base-url)"
    ]
    given = ServerSettings(variables={"region": "eu"})
    assert list(describe_assumptions(REGION, DOCUMENT_URL, given)) == []
