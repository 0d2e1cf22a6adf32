"""One turn, from the request to the stored answer.

runner (one turn a lane, in running_turns) → open_turn: turn_plan (turn_request, preflight, context_window),
prepared_turn, turn_loop → execution: model_caller (call_ledger, endpoint_router: endpoints, redaction),
tool_executor (tool_policy, approvals), recorder. handle stops a turn. Between turns: summaries, cache_warmup;
for tools: history_search, tool_questions.
"""

from bot.turns.address_judge import AddressJudge
from bot.turns.approval_questions import find_choice
from bot.turns.approvals import Approvals
from bot.turns.cache_warmup import WARMUP_PROMPTS
from bot.turns.context_window import (
    PERSONA_LABEL,
    TOOL_LABEL,
    ContextWindow,
    PromptBreakdown,
    PromptBreakdowns,
    compute_token_ratio,
    estimate_fixed_tokens,
    render_window,
)
from bot.turns.endpoints import (
    CONTENT_NAMES,
    ModelEndpoint,
    build_consent_question,
    can_send_to,
    format_consent_data,
    hash_host,
)
from bot.turns.execution import RequestCompleter, TurnRunner
from bot.turns.handle import RunningTurns, TurnHandle
from bot.turns.history_search import find_texts, load_exchange, restore_written
from bot.turns.tool_questions import ToolQuestions
from bot.turns.turn_plan import LEAST_RESERVE_TOKENS, TOOL_RESERVE_TOKENS
from bot.turns.turn_request import TurnRequest, build_user_messages, strip_stamp

__all__ = [
    "CONTENT_NAMES",
    "LEAST_RESERVE_TOKENS",
    "PERSONA_LABEL",
    "TOOL_LABEL",
    "TOOL_RESERVE_TOKENS",
    "WARMUP_PROMPTS",
    "AddressJudge",
    "Approvals",
    "ContextWindow",
    "ModelEndpoint",
    "PromptBreakdown",
    "PromptBreakdowns",
    "RequestCompleter",
    "RunningTurns",
    "ToolQuestions",
    "TurnHandle",
    "TurnRequest",
    "TurnRunner",
    "build_consent_question",
    "build_user_messages",
    "can_send_to",
    "compute_token_ratio",
    "estimate_fixed_tokens",
    "find_choice",
    "find_texts",
    "format_consent_data",
    "hash_host",
    "load_exchange",
    "render_window",
    "restore_written",
    "strip_stamp",
]
