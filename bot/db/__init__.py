"""All state of the house; the only room that speaks SQL."""
