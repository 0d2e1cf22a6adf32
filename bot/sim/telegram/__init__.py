"""A simulated Bot API with its chats, people, limits and faults."""
