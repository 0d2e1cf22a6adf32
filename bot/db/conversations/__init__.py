"""What lanes hold: conversations and their turns, messages, model and tool calls, attachments and notes."""
