"""The HTTP API (docs/api.md). Everything it does is an operation (`operations/`) on an open store."""
