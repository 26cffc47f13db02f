"""Every operation that users can do, once, over a store. Scheduler, client, CLI and server call these."""
