"""The values that everything else uses: jobs, runs, policies, events and errors. Frozen data, without any I/O."""
