"""What looks like a key is detected, however it is written; names and addresses of tools are not."""

import base64
import json
import random

import pytest

from bot.tool_registry.secret_scanner import HIDDEN, has_likely_secret, mask_secrets


@pytest.mark.parametrize(
    "text",
    [
        "https://ann:pw@example.com/openapi.json",
        "https://example.com/openapi.json?api_key=abc",
        "https://example.com/openapi.json?x-api-key=abc",
        "https://example.com/openapi.json#access_token=abc",
        "https://hooks.example.com/services/T0AB1CD2E/B9ZYX8W7/q8Jd73hGs02LmPq9XtY1vB4n",
        "https://example.com/x Authorization: Bearer abc.def-ghi",
        "https://example.com/x bearer abcdefgh12",
        "https://example.com/x token=abc",
        'try shop_get {"password": "hunter2"}',
        "sk-proj-abcdefghijklmnop",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
        "123456789:AAExampleExampleExampleExampleExample",
        "3f2b8c1d-9e4a-4b7c-8d1e-2f3a4b5c6d7e",
        "https://[broken",
    ],
)
def test_what_looks_like_a_key_is_detected(text: str):
    assert has_likely_secret(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://petstore3.swagger.io/api/v3/openapi.json",
        "https://api.example.com/v2/openapi.yaml shop getOrderByIdAndCustomer listOrders2024Archive",
        "https://raw.githubusercontent.com/OAI/OpenAPI-Specification/main/examples/v3.0/petstore.yaml",
        "endpoint weather GET https://api.example.com/v1/weather/{city}?units=metric\n"
        "The weather of a city.\n"
        "city (string): the city, such as Tokyo\ntoken (string): a token of the page to go on with",
        "mcp https://mcp.example.com/mcp time",
        "https://api.example.com/openapi.json shop getOrderByIdAndCustomerName listAllOfMyOldOrdersByDate",
        "https://example.com:8443/a/b/c/d/e/2024-10-05/openapi-3.1.0.json?version=3",
        "",
    ],
)
def test_what_tools_are_added_with_is_not_taken_for_a_key(text: str):
    assert not has_likely_secret(text)


@pytest.mark.parametrize(
    "template", ["https://example.com/a/{}", "https://example.com/?v={}", "{}", "a-{}-key"]
)
@pytest.mark.parametrize("size", [24, 32, 48])
def test_random_keys_are_detected_nearly_always(template: str, size: int):
    generator = random.Random(size)
    keys = [generator.randbytes(size) for _ in range(200)]
    for encode in (lambda key: base64.urlsafe_b64encode(key).decode(), bytes.hex):
        detected = sum(has_likely_secret(template.format(encode(key))) for key in keys)
        assert detected >= 190


def test_secrets_in_arguments_are_hidden_by_their_names_and_by_their_looks():
    masked = mask_secrets(
        '{"city": "Rome", "api_key": "x", "nested": [{"password": "pw", "n": 3}, "sk-abcdefghijklmnop"],'
        ' "token": ""}'
    )
    nested = [{"password": HIDDEN, "n": 3}, HIDDEN]
    assert json.loads(masked) == {"city": "Rome", "api_key": HIDDEN, "nested": nested, "token": ""}
    assert mask_secrets('{"key": "sk-abcdefghijklmnop') == HIDDEN
    assert mask_secrets("no json") == "no json"
