"""Runs attempts: as coroutines, in threads, in child processes, as programs, HTTP calls and containers."""
