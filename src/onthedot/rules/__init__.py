"""Decisions: pure functions from facts to what should happen. `now` is always an argument."""
