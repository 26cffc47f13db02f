"""The recorder stands before the store's own operations."""

from __future__ import annotations

import inspect

from onthedot.stores.protocol import Store
from onthedot.stores.queries import Queries
from onthedot_verify.simulation.recorder import RecordedQueries, Recorder


def test_what_is_recorded_are_operations_of_the_store():
    """An operation that was renamed would pass the recorder by, and the checker would see nothing of it."""
    for recorder, part in ((Recorder, Store), (RecordedQueries, Queries)):
        recorded = {name for name, _ in inspect.getmembers(recorder, inspect.iscoroutinefunction) if name[0] != "_"}
        assert recorded
        assert recorded <= set(dir(part))
