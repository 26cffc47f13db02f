"""Schedules become runs."""
