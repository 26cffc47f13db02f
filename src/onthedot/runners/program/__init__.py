"""Runs commands and steps. An attempt has a workspace, and its programs are started by the guard."""
