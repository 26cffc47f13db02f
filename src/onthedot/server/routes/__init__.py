"""The routes: one module per noun of the API. Their permissions are in `server/permissions.py`."""
