"""The recorder overrides only operations that the store has."""

from __future__ import annotations

import inspect

from onthedot.stores.protocol import Store
from onthedot.stores.queries import Queries
from onthedot_verify.simulation.recorder import RecordedQueries, Recorder


def test_the_recorder_overrides_operations_of_the_store():
    """If an operation were renamed, the recorder would miss it, and the checker would not see its writes."""
    for recorder, part in ((Recorder, Store), (RecordedQueries, Queries)):
        recorded = {name for name, _ in inspect.getmembers(recorder, inspect.iscoroutinefunction) if name[0] != "_"}
        assert recorded
        assert recorded <= set(dir(part))
