"""A simulated endpoint for the bench itself: answers its prompts at the published lengths, in about a DGX
Spark's time.

What is measured against it says whether the bench measures right, and nothing about any model.
"""

from bot.bench.endpoint.protocols import FIRST_REQUEST, PROTOCOLS, ProtocolPrompt
from bot.bench.endpoint.tool_calls import TOOL_CALL_CASES
from bot.bench.harness import workload as talk
from bot.domain import CANVAS_TOKENS
from bot.sim.vllm.server import ChatRequest, SimulatedEndpoint, Timing, format_thought, format_tool_call

SIMULATED_ADDRESS = "sim"
"""What `--endpoint` is told to be measured against it."""
SIMULATION_NOTICE = "no model ran; these figures show what the simulator was set to, {seconds:g} s a canvas."
SEATS = 4
THOUGHT_TOKENS = 300  # tokens

_PROMPTS = [*FIRST_REQUEST.prompts, *(ask for protocol in PROTOCOLS for ask in protocol.prompts)]


def build_simulated_endpoint(timing: Timing | None = None) -> SimulatedEndpoint:
    """The endpoint, to be served; `timing` is what the bench should find."""
    return SimulatedEndpoint(timing=timing or Timing.spark(), seats=SEATS, brain=answer_prompt)


def canvas_seconds(endpoint: SimulatedEndpoint) -> float:
    """What a canvas takes there, behind a prompt of no length."""
    return endpoint.timing.canvas_time(0)


def answer_prompt(request: ChatRequest) -> str:
    """What the prompt of the bench asks for: its tool, or prose of its length; anything else gets a whole
    canvas.
    """
    asked = "\n".join(request.user_texts)
    case = next((case for case in TOOL_CALL_CASES if case.text in asked and request.tools), None)
    ask: ProtocolPrompt | None = next((ask for ask in _PROMPTS if ask.text in asked), None)
    if case is not None:
        said = format_tool_call(case.tool_name, case.arguments)
    else:
        said = talk.write_prose((CANVAS_TOKENS if ask is None else ask.expected_tokens) - 1, 7).strip()
    if request.thinking:
        return format_thought(talk.write_prose(THOUGHT_TOKENS, 3), request) + said
    return said
