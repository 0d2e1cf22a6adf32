"""bench direct and bench gateway."""
