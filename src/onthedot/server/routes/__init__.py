"""One file for each kind of thing. What each route takes to be called is in `server/permissions.py`."""
