"""Where runs that are inserted wait."""

from __future__ import annotations

import pytest

from onthedot.route import is_shared, on_node, ranked
from onthedot.stores.lines import Line, give_turns, line_of, places_of_turns, share_of
from onthedot.stores.planned import Insert


def run(due_at: int = 0, target: str = "") -> Insert:
    return Insert(1, "submit:1", due_at, None, None, False, target, due_at)


def test_a_run_waits_in_its_jobs_route_or_in_its_nodes():
    assert line_of(run(), "mail", "mail", 2, "ann") == Line("mail", 2, None, "mail", "ann")
    assert line_of(run(target="web-1"), "mail", "mail", 2, "").route == on_node("web-1")


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


def test_in_a_fair_queue_those_that_are_due_get_turns_at_once():
    runs = [run(5), run(20), run(5), run(5, target="web-1"), run(10)]
    queues = ["mail", "mail", "other", "mail", "mail"]
    lines = [line_of(one, queue, queue, 1, "") for one, queue in zip(runs, queues, strict=True)]
    assert not is_shared(lines[3].route)
    places = places_of_turns(runs, lines, "mail", 10)
    assert places == [0, 4]
    give_turns(lines, places, [70, 80])
    assert [line.rank for line in lines] == [70, None, None, None, 80]
    assert [line.route for line in lines][:3] == [ranked("mail"), "mail", "other"]
