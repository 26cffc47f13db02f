"""What a program's jobs would do: its schedules played on a virtual clock, with the real planner and worker, and
without a line of user code."""
