"""Defines jobs: code, files and plain data become checked `Job` values, and jobs become text."""
