"""The client: the operations of a `Scheduler` over HTTP, for programs that have a server's address and no store."""
