"""JMESPath expressions of admins: checked when they are set, and applied to any text that a tool returns."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.reduction.expressions import (
    MAX_EXPRESSION_CHARS,
    ReductionRefused,
    check_expression,
    reduce_json,
)

NEXT_PAGE = "\n\n[There is more: the next page has page=2]"
HITS = json.dumps({"results": [{"title": "Rain", "url": "https://sky.example", "engines": ["a"]}] * 2})


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "it is empty"),
        ("results[", "it is not complete"),
        ("results..title", "'.' does not fit at character 9"),
        ("results[].shout(@)", "there is no function shout()"),
        ("(" * 900, "it is nested too deep"),
        ("`nothing`", "it is empty, or no JMESPath"),
        ("a" * (MAX_EXPRESSION_CHARS + 1), "it has more than 1,000 characters"),
    ],
)
def test_what_is_no_expression_is_refused_in_a_plain_sentence(expression: str, reason: str):
    with pytest.raises(ReductionRefused) as refused:
        check_expression(expression)
    assert str(refused.value).startswith(reason)


@given(st.text("ab.[]{}()*?|&!@`'\":,<=>\\ 1-é\ud800", max_size=40))
def test_any_text_is_an_expression_or_refused(expression: str):
    try:
        check_expression(expression)
    except ReductionRefused:
        return
    assert reduce_json(b'{"a": [1, "x", null]}', expression).keys() in ({"text"}, {"problem"})


@pytest.mark.parametrize(
    ("text", "expression", "reduced"),
    [
        (HITS, "results[:1].{title: title, url: url}", '[{"title":"Rain","url":"https://sky.example"}]'),
        (HITS, "results[0].title", "Rain"),
        (HITS, "length(results)", "2"),
        ('{"a": 1}\n{"a": 2}\n', "[].a", "[1,2]"),  # lines of JSON, and lists of MCP servers
        (f'{{"a": 1}}{NEXT_PAGE}', "a", f"1{NEXT_PAGE}"),
        ('{"a": false}', "a", "false"),
    ],
)
def test_a_result_is_reduced(text: str, expression: str, reduced: str):
    check_expression(expression)
    assert reduce_json(text.encode(), expression) == {"text": reduced}


@pytest.mark.parametrize(
    ("text", "expression", "problem"),
    [
        ("<html>", "a", "it is not JSON"),
        ("", "a", "it is not JSON"),
        ('{"a": 1} and more', "a", "it is not JSON"),
        ("[" * 100_000, "a", "it is not JSON"),
        ('{"b": 1}', "a", "it finds nothing"),
        ('{"a": 1}', "sort(a)", "sort() is given number"),
        ('["a", 1]', "sort(@)", "sort() is given int"),
        ('{"a": [1]}', "length(a, a)", "Expected 1 argument for function length(), received 2"),
    ],
)
def test_a_result_that_an_expression_does_not_fit_says_why(text: str, expression: str, problem: str):
    assert reduce_json(text.encode(), expression)["problem"] == problem
