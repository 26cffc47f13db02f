"""The guard: a process of its own that starts programs, bounds, records and ends them. See docs/running.md."""
