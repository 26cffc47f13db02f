"""The share to which a run belongs, in a fair queue."""

from __future__ import annotations

import pytest

from onthedot.stores.sql.submit import share_of


@pytest.mark.parametrize(
    ("args", "share"),
    [
        ('{"tenant": "ann"}', "ann"),
        ('{"tenant": {"b": 1, "a": 2}}', '{"a": 2, "b": 1}'),
        ("{}", "null"),
        (None, "null"),
    ],
)
def test_the_share_of_a_run_is_read_from_its_arguments(args: str | None, share: str):
    assert share_of(args, "tenant") == share
