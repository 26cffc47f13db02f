"""The verbs over HTTP, for programs and command lines that have a server's address and no store."""
