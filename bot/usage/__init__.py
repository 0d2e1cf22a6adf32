"""Where seconds and tokens of turns went: measured while they run, reported from the database afterwards."""
