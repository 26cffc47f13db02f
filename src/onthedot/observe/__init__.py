"""Turns events and records into lines for people, JSON for machines, counters and metrics."""
