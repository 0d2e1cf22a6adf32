"""One turn, from the request to the stored answer.

runner (one turn a lane) → execution (the loop's events) → start (turn_request, preflight, context_window) →
model_caller (call_ledger, endpoint_router: endpoints, redaction) → tool_executor (tool_policy, approvals) →
recorder. handle stops a turn. Between turns: summaries, cache_warmup; for tools: history_search.
"""
