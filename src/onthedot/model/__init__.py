"""The values that all other packages use: jobs, runs, policies, events and errors. Frozen data, no I/O."""
