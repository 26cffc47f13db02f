"""Runs commands and steps: one attempt is a workspace and its programs, which the guard starts."""
