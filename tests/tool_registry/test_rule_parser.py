"""Rules are read as admins write them; what cannot be meant is refused with how it may be written."""

import pytest

from bot.errors import ChangeRefused
from bot.tool_registry.rule_parser import parse_rule
from tools.base import Rule


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("default", None),
        ("never", Rule("never")),
        ("Always", Rule("always")),
        ("once admins", Rule("once", None, "admins")),
        ('always asker when {"required": ["x"]}', Rule("always", {"required": ["x"]}, "asker")),
        ('once when\n{"properties":\n{}}', Rule("once", {"properties": {}})),
        ('once when {"not": {"required": ["x"]}}', Rule("once", {"not": {"required": ["x"]}})),
    ],
)
def test_what_is_meant(words: str, rule: Rule | None):
    assert parse_rule(words) == rule


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("", "A rule is never"),
        ("sometimes", "A rule is never"),
        ("always everyone", "A rule is never"),
        ("always when {oops}", "no JSON"),
        ('always when {"type": 3}', "no JSON Schema"),
        ('always when {"properties": {"x": {"$ref": "http://127.0.0.1/x"}}}', "only references within"),
        ('always when {"properties": {"x": {"pattern": "(a+)+$"}}}', "cannot be used: x has a pattern"),
        ("always when {" + '"a":{' * 5000 + "}" * 5001, "no JSON"),
    ],
)
def test_what_cannot_be_meant(words: str, why: str):
    with pytest.raises(ChangeRefused, match=why):
        parse_rule(words)
