"""Untrusted input: no text from outside is imported, unpickled or evaluated, wherever it gets in."""
