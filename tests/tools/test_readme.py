import re
from pathlib import Path

from tools import __file__ as package
from tools.arguments import check_arguments
from tools.base import run_tool_text
from tools.registry import discover, render_definitions

README = Path(package).with_name("README.md").read_text()


async def test_the_tool_in_ten_lines_works_as_written(context, tmp_path, monkeypatch):
    (written,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    package_of_it = tmp_path / "written"
    package_of_it.mkdir()
    (package_of_it / "__init__.py").write_text("")
    (package_of_it / "greet.py").write_text(written)
    monkeypatch.syspath_prepend(str(tmp_path))
    import written as found  # type: ignore[import-not-found]

    (greet,) = discover(package=found)
    assert (
        await run_tool_text(greet, check_arguments(greet, {"name": "Bo", "times": "2"}), context)
        == "Ann says: hello, hello, Bo"
    )
    body = written[written.index("@tool") :].strip().splitlines()
    assert len(body) <= 10


def test_every_tool_is_in_the_table_with_whether_it_is_repeatable():
    rows = dict(
        re.findall(r"^\| `(\w+)` \| [^|]+ \| (yes|no) \|$", README.partition("## Safety")[2], re.MULTILINE)
    )
    assert rows == {tool.name: "yes" if tool.repeatable else "no" for tool in discover()}


def render_declaration(schema: object) -> str:
    """How the model's template writes a schema, near enough to count it."""
    if isinstance(schema, dict):
        return "{" + ",".join(f"{key}:{render_declaration(value)}" for key, value in schema.items()) + "}"
    if isinstance(schema, list):
        return "[" + ",".join(render_declaration(value) for value in schema) + "]"
    return f'<|"|>{schema}<|"|>'


def test_the_tools_are_small_in_the_prompt():
    """Seventy tokens each at four characters, so that ten such tools and the system text stay within 1,200."""
    text = "".join(
        f"<|tool>declaration:{tool['function']['name']}"
        + render_declaration(
            {"description": tool["function"]["description"], "parameters": tool["function"]["parameters"]}
        )
        + "<tool|>"
        for tool in render_definitions(discover())
    )
    assert len(text) / 4 <= 70 * len(discover())
