"""The page of the tools says what is true: its example runs, its table is complete."""

import re
from pathlib import Path

import tools
from tools.arguments import check_arguments
from tools.base import File, run_tool
from tools.registry import discover, render_definitions
from tools.search.searxng import SearxngEngine
from tools.search.tool import make_search_tool

BUILTIN = discover([make_search_tool(SearxngEngine("http://search.test"))])
README = Path(tools.__file__).with_name("README.md").read_text()


async def test_the_tool_in_ten_lines_works_as_written(context, tmp_path, monkeypatch):
    example, export = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    folder = tmp_path / "example_tools"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "greet.py").write_text(example)
    (folder / "export.py").write_text(export)
    monkeypatch.syspath_prepend(str(tmp_path))
    import example_tools  # type: ignore[import-not-found]

    export_table, greet = discover(package=example_tools)
    found = await run_tool(export_table, {"rows": ["a,b", "1,2"]}, context)
    assert found.files == (File("table.csv", b"a,b\n1,2", "Your table"),)
    arguments = check_arguments(greet, {"name": "Bo", "times": "2"})
    assert (await run_tool(greet, arguments, context)).text == "Ann says: hello, hello, Bo"
    for source in (example, export):
        body = source[source.index("@tool") :].strip().splitlines()
        assert len(body) <= 10


def test_every_tool_is_in_the_table_with_whether_it_is_repeatable():
    rows = dict(
        re.findall(r"^\| `(\w+)` \| [^|]+ \| (yes|no) \|$", README.partition("## Safety")[2], re.MULTILINE)
    )
    assert rows == {tool.name: "yes" if tool.repeatable else "no" for tool in BUILTIN}


def render_declaration(schema: object) -> str:
    """A schema about as the model's template writes it, close enough to count its characters."""
    if isinstance(schema, dict):
        return "{" + ",".join(f"{key}:{render_declaration(value)}" for key, value in schema.items()) + "}"
    if isinstance(schema, list):
        return "[" + ",".join(render_declaration(value) for value in schema) + "]"
    return f'<|"|>{schema}<|"|>'


def test_the_tools_are_small_in_the_prompt():
    """At most 70 tokens each, of four characters: ten such tools and the system text stay within 1,200."""
    text = ""
    for definition in render_definitions(BUILTIN):
        function = definition
        body = {"description": function["description"], "parameters": function["parameters"]}
        text += f"<|tool>declaration:{function['name']}{render_declaration(body)}<tool|>"
    assert len(text) / 4 <= 70 * len(BUILTIN)
