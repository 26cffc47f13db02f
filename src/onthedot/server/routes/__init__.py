"""The routes, one module for each kind of thing. Their permissions are in `server/permissions.py`."""
