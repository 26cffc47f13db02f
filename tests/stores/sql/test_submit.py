"""Whose run it is, in a queue that is shared fairly."""

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
def test_whose_run_it_is(args: str | None, share: str):
    assert share_of(args, "tenant") == share
