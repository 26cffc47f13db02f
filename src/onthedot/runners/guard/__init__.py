"""The guard: a process of its own that starts programs, limits them, records their output and ends them."""
