"""Rules are parsed as admins write them; any other text is refused with how to write one."""

import pytest

from bot.errors import ChangeRefused
from bot.tool_registry.rule_parser import parse_rule
from tools.base import Rule


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("default", None),
        ("never", Rule("never")),
        (" Reads ", Rule("never", only_reads=True)),
        ("Always", Rule("always")),
        ("once admins", Rule("once", None, "admins")),
        ('always asker when {"required": ["x"]}', Rule("always", {"required": ["x"]}, "asker")),
        ('once when\n{"properties":\n{}}', Rule("once", {"properties": {}})),
        ('once when {"not": {"required": ["x"]}}', Rule("once", {"not": {"required": ["x"]}})),
    ],
)
def test_a_rule_is_parsed(text: str, rule: Rule | None):
    assert parse_rule(text) == rule


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "A rule is never"),
        ("sometimes", "A rule is never"),
        ("always everyone", "A rule is never"),
        ("reads admins", "A rule is never"),
        ("always when {oops}", "valid JSON"),
        ('always when {"type": 3}', "a valid JSON Schema"),
        ('always when {"properties": {"x": {"$ref": "http://127.0.0.1/x"}}}', "only references within"),
        ('always when {"properties": {"x": {"pattern": "(a+)+$"}}}', "can't be used: x has a pattern"),
        ('always when {"not": {"properties": {"x": {"maximum": 9}}}}', "under `not` or `if`"),
        ('always when {"anyOf": [{"if": {"properties": {"x": {"maximum": 9}}}}]}', "under `not` or `if`"),
        ("always when {" + '"a":{' * 5000 + "}" * 5001, "valid JSON"),
    ],
)
def test_a_text_that_is_no_rule_is_refused(text: str, reason: str):
    with pytest.raises(ChangeRefused, match=reason):
        parse_rule(text)
