"""Names of an API become names of tools and arguments."""

import pytest

from tools.base import TOOL_NAME_PATTERN
from tools.openapi.names import to_tool_name, unique_argument_names


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("listPets", "list_pets"),
        ("GET /pets/{id}", "get_pets_id"),
        ("getHTTPStatusOfURL", "get_http_status_of_url"),
        ("pets.v2.find-all", "pets_v2_find_all"),
        ("2faEnable", "do_2fa_enable"),
        ("Überweisung", "berweisung"),
        ("查询", ""),
        ("x" * 80, "x" * 64),
        ("a" * 63 + "B", "a" * 63),
    ],
)
def test_names_become_valid_tool_names(written, name):
    assert to_tool_name(written) == name
    assert not name or TOOL_NAME_PATTERN.fullmatch(name)


def test_arguments_of_the_same_name_get_their_location_appended():
    values = [
        ("id", "path"),
        ("id", "query"),
        ("X-Id", "header"),
        ("$top", "query"),
        ("$", "query"),
        ("", "query"),
    ]
    assert unique_argument_names(values) == [
        "id_path",
        "id_query",
        "X_Id",
        "top",
        "query_query",
        "query_query_2",
    ]


def test_comparisons_of_a_value_are_told_apart():
    values = [("DateSent", "query"), ("DateSent<", "query"), ("DateSent>", "query"), ("age>=", "query")]
    assert unique_argument_names(values) == ["DateSent", "DateSent_lt", "DateSent_gt", "age_gte"]
