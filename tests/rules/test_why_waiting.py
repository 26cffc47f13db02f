"""`reasons` explains why a run waits, from its record and the state around it."""

from __future__ import annotations

from dataclasses import replace

from onthedot.model.job import Job, JobRecord, JobState
from onthedot.model.run import RunRecord, RunState, WaitReason
from onthedot.model.task import Noop
from onthedot.rules.placement import Place
from onthedot.rules.why_waiting import Surroundings, reasons

JOB = JobRecord(1, 1, Job(name="report", task=Noop()), JobState.ACTIVE, 0, 0)
PLACE = Place("web-1", "inc-1", frozenset({"default"}), frozenset(), frozenset({"noop"}))
RUN = RunRecord(7, "report", "default", "submit:a", 10, 10, RunState.SCHEDULED, "", 0, 0, 0, 0)
WAITS = WaitReason(7)


def test_a_running_or_ended_run_has_no_reason_to_wait():
    for state in (RunState.SUCCEEDED, RunState.RUNNING):
        assert reasons(replace(RUN, state=state), WAITS, Surroundings(JOB), 20) == []
    asked = replace(WAITS, cancel_wanted="by ann")
    assert reasons(replace(RUN, state=RunState.RUNNING), asked, Surroundings(), 20) == [
        "its attempt is asked to stop: by ann"
    ]


def test_pauses_by_users_are_listed_first():
    paused = replace(JOB, state=JobState.PAUSED, pause_reason="it moves")
    around = Surroundings(paused, queue_paused="", places=[PLACE])
    assert reasons(RUN, WAITS, around, 5) == [
        "its job, which is paused: it moves",
        "its queue 'default', which is paused",
        "its instant, 1970-01-01T00:00:00.000010+00:00",
    ]


def test_a_gate_is_named_with_its_holders():
    standing = replace(WAITS, gate="limit:name:x:", holders=(4,))
    [found] = reasons(RUN, standing, Surroundings(JOB, places=[PLACE]), 20, unnamed=2)
    assert found == "the gate limit:name:x:, which is held by run 4 and 2 other runs"


def test_without_a_worker_the_missing_ability_is_named():
    assert reasons(RUN, WAITS, Surroundings(JOB), 20) == [
        "a living worker to serve queue 'default' with what the job needs: there is none",
        "a worker that can do 'noop': no living one offers it",
    ]
    elsewhere = Surroundings(JOB, places=[PLACE._replace(queues=frozenset({"mail"}))])
    assert len(reasons(RUN, WAITS, elsewhere, 20)) == 1


def test_the_node_that_the_leader_chose_is_named():
    around = Surroundings(JOB, places=[PLACE], nodes={"inc-1": "web-1"})
    assert reasons(RUN, replace(WAITS, place="inc-1"), around, 20) == ["node web-1, which the leader chose"]
    assert reasons(RUN, replace(WAITS, place="gone"), around, 20) == ["node gone, which the leader chose"]


def test_a_run_without_another_reason_waits_for_a_seat():
    [found] = reasons(RUN, WAITS, Surroundings(JOB, places=[PLACE]), 20)
    assert found.startswith("a free seat")
