"""A simulated endpoint for the bench itself: answers its prompts at the published lengths, in about a DGX
Spark's time.

What is measured against it says whether the bench measures right, and nothing about any model.
"""

from bot.bench.endpoint.protocols import FIRST_REQUEST, PROTOCOLS, Ask
from bot.bench.endpoint.tool_calls import CASES
from bot.bench.harness import workload as talk
from bot.domain import CANVAS
from bot.sim.vllm.server import ChatRequest, Endpoint, Timing, call_text, thought

ADDRESS = "sim"
"""What `--endpoint` is told to be measured against it."""
LINE = "no model ran; these figures show what the simulator was set to, {seconds:g} s a canvas."
SEATS = 4
THOUGHT = 300  # tokens

_ASKS = [*FIRST_REQUEST.asks, *(ask for protocol in PROTOCOLS for ask in protocol.asks)]


def simulated(timing: Timing | None = None) -> Endpoint:
    """The endpoint, to be served; `timing` is what the bench should find."""
    return Endpoint(timing=timing or Timing.spark(), seats=SEATS, brain=answer)


def seconds(endpoint: Endpoint) -> float:
    """What a canvas takes there, behind a prompt of no length."""
    return endpoint.timing.canvas_time(0)


def answer(request: ChatRequest) -> str:
    """What the prompt of the bench asks for: its tool, or prose of its length; anything else gets a whole
    canvas.
    """
    asked = "\n".join(request.asked)
    case = next((case for case in CASES if case.text in asked and request.tools), None)
    ask: Ask | None = next((ask for ask in _ASKS if ask.text in asked), None)
    if case is not None:
        said = call_text(case.tool, case.call)
    else:
        said = talk.prose((CANVAS if ask is None else ask.tokens) - 1, 7).strip()
    if request.thinking:
        return thought(talk.prose(THOUGHT, 3), request) + said
    return said
