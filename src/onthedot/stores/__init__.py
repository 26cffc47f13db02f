"""Stores: the protocol, and its drivers for memory, SQLite, PostgreSQL and Redis."""
