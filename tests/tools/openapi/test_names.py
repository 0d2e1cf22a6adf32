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
def test_names_of_tools_are_in_the_houses_form(written, name):
    assert to_tool_name(written) == name
    assert not name or TOOL_NAME_PATTERN.fullmatch(name)


def test_arguments_that_would_be_called_alike_say_where_they_go():
    wanted = [
        ("id", "path"),
        ("id", "query"),
        ("X-Id", "header"),
        ("$top", "query"),
        ("$", "query"),
        ("", "query"),
    ]
    assert unique_argument_names(wanted) == [
        "id_path",
        "id_query",
        "X_Id",
        "top",
        "query_query",
        "query_query_2",
    ]
