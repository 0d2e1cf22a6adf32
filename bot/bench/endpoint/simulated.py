"""A simulated endpoint for the bench: answers its prompts at the published lengths, as fast as a DGX Spark.

Measuring it shows whether the bench measures correctly, and nothing about any model.
"""

from bot.bench.endpoint.protocols import FIRST_REQUEST, PROTOCOLS, ProtocolPrompt
from bot.bench.endpoint.tool_calls import TOOL_CALL_CASES
from bot.bench.harness.prose import write_prose
from bot.canvases import CANVAS_TOKENS
from bot.sim.vllm.server import ChatRequest, SimulatedEndpoint, Timing, format_thought, format_tool_call

SIMULATED_ADDRESS = "sim"
"""The value of `--endpoint` that selects it."""
SIMULATION_NOTICE = "no model ran; these figures show what the simulator was set to, {seconds:g} s a canvas."
SEATS = 4
THOUGHT_TOKENS = 300

_PROMPTS = [*FIRST_REQUEST.prompts, *(prompt for protocol in PROTOCOLS for prompt in protocol.prompts)]


def build_simulated_endpoint(timing: Timing | None = None) -> SimulatedEndpoint:
    """The endpoint, to be served; `timing` is what the bench should measure."""
    return SimulatedEndpoint(timing=timing or Timing.spark(), seats=SEATS, brain=answer_prompt)


def answer_prompt(request: ChatRequest) -> str:
    """What the prompt of the bench asks for: its tool call, or prose of its length.

    Any other prompt gets a whole canvas.
    """
    text = "\n".join(request.user_texts)
    case = next((case for case in TOOL_CALL_CASES if case.text in text and request.tools), None)
    prompt: ProtocolPrompt | None = next((prompt for prompt in _PROMPTS if prompt.text in text), None)
    if case is not None:
        reply = format_tool_call(case.tool_name, case.arguments)
    else:
        tokens = CANVAS_TOKENS if prompt is None else prompt.expected_tokens
        reply = write_prose(tokens - 1, 7).strip()
    if request.thinking:
        return format_thought(write_prose(THOUGHT_TOKENS, 3), request) + reply
    return reply
