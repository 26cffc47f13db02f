"""If the store's clock is set, the rules compare instants on the steady clock."""

import pytest

from onthedot_verify.checker import check
from tests.checker.stories import S, Story, beginning, changed, good, without
from tests.checker.test_gates_and_control import overlapping


def clock_set(story: Story, at: float, by: float) -> Story:
    """The same story with the store's clock set by so many seconds when the steady clock is at `at`."""
    told = [event for event in story.events if event["t_mono"] <= at * S]
    then = [event | {"t_store": event["t_store"] + round(by * S)} for event in story.events[len(told) :]]
    fault = {"ev": "nemesis", "src": "nemesis", "node": "", "kind": "step", "fault": "step", "on": "a", "length": 1}
    story.events = [*told, fault | {"t_store": round(at * S), "t_mono": round(at * S)}, *then]
    for place, event in enumerate(story.events, start=1):
        event["seq"] = place
    return story


def broken(story: Story, rule: str) -> bool:
    return bool(check(story.events, only=[rule]))


def test_a_node_may_start_by_the_old_clock_for_one_lease():
    assert not broken(clock_set(good(), 59.95, -10), "S3")
    assert not broken(clock_set(good(), 59, -10), "S3")


def test_a_start_is_early_if_both_clocks_say_so():
    early = changed(good(), "start", t_store=59 * S, t_mono=59 * S)
    assert broken(clock_set(early, 58.7, -10), "S3")


def test_the_old_clock_does_not_count_after_a_lease():
    assert broken(clock_set(good(), 44, -10), "S3")


@pytest.mark.parametrize(("seconds", "wrong"), [(16, False), (9, True)])
def test_a_term_from_before_the_clock_was_set_back_ends_a_whole_term_later(seconds, wrong):
    story = beginning().add(35 + seconds, "elect", inc="B", term=3, shard=0, until=60 * S)
    assert broken(clock_set(story, 36.5, -10), "S12") == wrong


def test_executions_are_matched_by_the_steady_clock():
    assert not broken(clock_set(good(), 60.5, -10), "matching by time")
    assert broken(clock_set(without(without(good(), "end"), "start"), 60.5, -10), "matching by time")


def test_leases_that_ended_with_the_clock_excuse_an_overlap():
    assert broken(overlapping(), "S11")
    assert not broken(clock_set(overlapping(), 62, 20), "S11")
