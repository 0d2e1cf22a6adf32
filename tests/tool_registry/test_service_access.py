"""How a service is reached: said in options, kept in a source, refused where a secret would lie open."""

import json

import pytest

from bot.db.tools.sources import Source
from bot.errors import ChangeRefused
from bot.tool_registry.secret_suggestions import suggest_secrets
from bot.tool_registry.secrets import list_referenced_secrets
from bot.tool_registry.service_access import (
    ServiceAccess,
    build_http_service,
    check_access,
    list_access_lines,
    parse_access,
    read_access,
    update_access,
    write_access,
)
from bot.translations.translator import ENGLISH
from tools.openapi.authentication import read_auth_needs

OPTIONS = (
    ("header", "X-Trace: on"),
    ("query", "api_key={nasa}"),
    ("cookie", "sid={sid}"),
    ("basic", "ann:{password}"),
    ("set", "AccountSid=AC0123456789abcdef0123456789abcdef"),
    ("set", "token={twilio}"),
    ("base-url", "https://api.shop.test/bot{telegram}"),
    ("variable", "region=eu"),
)


def test_what_is_said_in_options_is_kept_in_a_source_and_shown():
    access = parse_access(OPTIONS)
    check_access(access)
    options = json.loads(json.dumps(write_access(access)))
    assert read_access(options) == access
    assert list_access_lines(access) == [
        "header X-Trace: on",
        "query api_key={nasa}",
        "cookie sid={sid}",
        "set AccountSid=AC0123456789abcdef0123456789abcdef",
        "set token={twilio}",
        "variable region=eu",
        "basic ann:{password}",
        "base-url https://api.shop.test/bot{telegram}",
    ]
    source = Source("shop", "openapi", "https://shop.test", options)
    assert list_referenced_secrets(source) == {"nasa", "sid", "password", "twilio", "telegram"}


def test_secrets_are_filled_in_where_they_are_sent():
    source = Source("shop", "openapi", "https://shop.test", write_access(parse_access(OPTIONS)))
    secrets = {name: f"{name}-value" for name in list_referenced_secrets(source)}
    service = build_http_service(source, secrets, frozenset())
    assert service.credentials.query == {"api_key": "nasa-value"}
    assert service.credentials.cookies == {"sid": "sid-value"}
    assert service.credentials.basic == "ann:password-value"
    assert service.fixed["token"].text == "twilio-value"
    assert service.fixed["secret:telegram"].text == "telegram-value"
    assert service.fixed["AccountSid"].secrets == ()
    assert "-value" not in repr(service)
    shown = service.mask_secrets(" ".join(secrets.values()))
    assert "value" not in shown


def test_a_source_of_an_earlier_version_is_read():
    assert read_access({"secrets": {"headers": {"X": "{a}"}}}) == ServiceAccess(headers={"X": "{a}"})
    assert read_access({}) == ServiceAccess()
    assert not read_access({})


@pytest.mark.parametrize(
    ("option", "text", "reason"),
    [
        ("query", "api_key", "Write query as NAME= VALUE"),
        ("query", "api_key=DEMO", "api_key looks like a secret"),
        ("query", "x=sk-abcdefghijklmnop", "x looks like a secret"),
        ("cookie", "session_token=abc", "session_token looks like a secret"),
        ("cookie", "a b={c}", "isn't a valid cookie name"),
        ("header", "Host: x", "can't be set"),
        ("set", "token=abc", "token looks like a secret"),
        ("set", "x=sk-abcdefghijklmnop", "x looks like a secret"),
        ("variable", "token=123", "token looks like a secret"),
        ("basic", "ann:pass", "with the name of a secret for the password"),
        ("basic", "{password}", "with the name of a secret for the password"),
        (
            "base-url",
            "https://x.test/bot12345678:AAabcdefghijklmnopqrstuvwxyz0123456",
            "base-url looks like",
        ),
    ],
)
def test_what_would_lie_open_or_cannot_be_sent_is_refused(option, text, reason):
    with pytest.raises(ChangeRefused, match=reason):
        check_access(parse_access([(option, text)]))


def test_an_empty_value_removes_what_had_the_name():
    before = parse_access(OPTIONS)
    after = update_access(before, parse_access([("query", "api_key="), ("set", "AccountSid=AC2")]))
    assert after.query == {}
    assert after.fixed == {"AccountSid": "AC2", "token": "{twilio}"}
    assert (after.basic, after.base_url) == (before.basic, before.base_url)
    changes = parse_access([("basic", ""), ("base-url", "")])
    assert changes
    check_access(changes)
    after = update_access(before, changes)
    assert (after.basic, after.base_url) == (None, None)
    assert read_access(write_access(after)) == after


def test_the_document_decides_which_secrets_are_asked_for():
    schemes = [
        {"type": "apiKey", "in": "query", "name": "key"},
        {"type": "apiKey", "in": "query", "name": "token"},
        {"type": "apiKey", "in": "cookie", "name": "sid"},
        {"type": "http", "scheme": "Basic"},
        {"type": "http", "scheme": "bearer"},
        {"type": "mutualTLS"},
    ]
    needs = read_auth_needs(schemes)
    suggestions = suggest_secrets("trello", needs, ServiceAccess(cookies={"sid": "{sid}"}))
    assert [suggestion.format_for_command_line() for suggestion in suggestions] == [
        "It needs a key in the query `key`: keep it with `canvasgram tools secret set trello_key`, "
        "then add --query 'key={trello_key}'",
        "It needs a key in the query `token`: keep it with `canvasgram tools secret set trello_token`, "
        "then add --query 'token={trello_token}'",
        "It needs a name and a password: keep it with `canvasgram tools secret set trello_password`, "
        "then add --basic 'NAME:{trello_password}'",
        "It needs a token as Bearer: keep it with `canvasgram tools secret set trello_token`, "
        "then add --header 'Authorization: Bearer {trello_token}'",
        "It needs something that cannot be shown (mutualTLS ).",
    ]
    [only, *_] = suggest_secrets("nasa", read_auth_needs(schemes[:1]), ServiceAccess())
    assert (
        only.format_for_chat(ENGLISH, "nasa").splitlines()[1] == "/tools configure nasa --query 'key={nasa}'"
    )
