"""One turn from message to reply: prompt, model calls, tools, approvals, what is stored."""
