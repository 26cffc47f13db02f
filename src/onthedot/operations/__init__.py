"""What users can do: every operation once, over a store. Scheduler, client, CLI and server call these."""
