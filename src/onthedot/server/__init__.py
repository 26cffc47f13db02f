"""The HTTP API (docs/design/doors.md). Everything it does is an operation (`operations/`) on an open store."""
