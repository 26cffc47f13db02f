"""Runs become verdicts."""
