"""Control tokens and prompt injection in strangers' words."""
