"""The process of a node that `onthedot up`, `worker` or `server` starts: its signals, its output and what it serves."""
