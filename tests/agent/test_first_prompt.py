"""The bytes of the first prompt: to change one throws every conversation's prefix cache away."""

from pathlib import Path

from bot.agent.prompt import build_prompt
from bot.agent.thinking_policy import decide_thinking
from bot.bench.harness.sample_tools import SAMPLE_TOOLS
from bot.domain import Message
from bot.llm.dialect import write_messages, write_tools
from bot.settings import SYSTEM_PROMPT
from bot.sim.gemma.template import TemplateInput, render_prompt
from bot.tool_registry.toolbox import Toolbox
from tests.bench.load.prompt_tokens import MAX_FIRST_PROMPT_TOKENS, TOOL_COUNT, measure_first_prompt
from tools.registry import discover

FIRST_PROMPT = Path(__file__).parents[1] / "fixtures" / "first_prompt.txt"
README = Path(__file__).parents[2] / "README.md"


def render_first_prompt() -> str:
    """The prompt with eleven tools, each control token that ends a part followed by a line break."""
    messages = build_prompt(SYSTEM_PROMPT, (), [Message("user", "Hello!")])
    toolbox = Toolbox([*discover(), *SAMPLE_TOOLS][:TOOL_COUNT])
    text = render_prompt(TemplateInput(write_messages(messages), write_tools(toolbox.definitions)))
    return text.replace("<tool|>", "<tool|>\n").replace("<|tool>", "\n<|tool>", 1) + "\n"


def test_the_first_prompt_has_the_bytes_of_the_fixture():
    """`python -m tests.agent.test_first_prompt` writes the fixture; `bench load` counts its tokens."""
    assert render_first_prompt() == FIRST_PROMPT.read_text(encoding="utf-8")


async def test_the_first_prompt_takes_no_more_tokens_than_it_may():
    with_tools, _ = await measure_first_prompt()
    assert with_tools <= MAX_FIRST_PROMPT_TOKENS
    assert f"A new chat begins with {with_tools} tokens" in README.read_text(encoding="utf-8")


def test_a_reminder_in_plain_words_is_work_for_schedule():
    decision = decide_thinking(["remind me at 6 to call mum"], Toolbox(discover()).tool_index)
    assert decision.tools == ("schedule",)
    assert not decision.thinking


if __name__ == "__main__":
    FIRST_PROMPT.write_text(render_first_prompt(), encoding="utf-8")
