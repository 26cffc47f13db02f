"""The HTTP API: `docs/api.md` says what it answers. Everything it does is a verb (`verbs.py`) on an open store."""
