"""Decisions, and nothing else: pure functions from facts to what should happen."""
