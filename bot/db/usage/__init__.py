"""The usage ledger: breakdowns of turns, sums and rankings, process lifetimes, and server counters."""
