"""Values of the client: every value that a server writes as JSON is read back as the same value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onthedot.client import values
from onthedot.model.errors import StoreError
from onthedot.model.job import JobRecord, JobState, canonical
from onthedot.model.route import PRIORITIES
from onthedot.model.run import AttemptRecord, Progress, RunRecord, RunState
from onthedot.observe.json_fields import NodeShown, queue_fields, term_fields
from onthedot.server.models import attempt_out, job_out, run_out, to_json
from onthedot.server.routes.nodes import _node
from onthedot.stores.values import Held, Node, Queue, Term
from tests.define.strategies import jobs

instants = st.integers(0, 4_000_000_000_000_000)
numbers = st.integers(0, 2**53)
texts = st.text(max_size=20)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


def sent(told: Any) -> Any:
    """The value after a trip through JSON."""
    return json.loads(to_json(told))


@given(
    st.builds(
        RunRecord,
        id=numbers, job=texts, namespace=texts, trigger=texts, slot_at=instants, due_at=instants,
        state=st.sampled_from(RunState), reason=texts, attempts=numbers, failures=numbers, recoveries=numbers,
        created_at=instants, armed_at=st.none() | instants, started_at=st.none() | instants,
        ended_at=st.none() | instants, error=st.none() | texts,
        result=plain.map(lambda value: None if value is None else json.dumps(value, separators=(",", ":"))),
        queue=texts, priority=st.sampled_from(PRIORITIES), target=texts,
        progress=st.none() | st.builds(Progress, st.floats(0, 1e9), st.none() | st.floats(0, 1e9)),
        args=st.none() | st.dictionaries(texts, plain, max_size=3).map(canonical),
        settled=texts, owner=texts, node=texts, revision=numbers,
    )
)  # fmt: skip
def test_a_run_is_read_back(run: RunRecord):
    assert values.run_record(sent(run_out(run))) == run


@given(
    st.builds(
        AttemptRecord,
        run_id=numbers, attempt=numbers, lease_id=st.just("secret"), fence=numbers, node=texts, revision=numbers,
        outcome=texts, error=st.none() | texts, due_at=instants, reserved_at=instants, armed_at=instants,
        started_at=st.none() | instants, ended_at=instants,
    )
)  # fmt: skip
def test_an_attempt_is_read_back_without_its_lease(attempt: AttemptRecord):
    read = values.attempt_record(sent(attempt_out(attempt)))
    assert read.lease_id == ""
    assert {name: getattr(read, name) for name in read.__slots__ if name != "lease_id"} == {
        name: getattr(attempt, name) for name in attempt.__slots__ if name != "lease_id"
    }


@settings(deadline=None, max_examples=50)
@given(jobs(), st.sampled_from(JobState), instants, instants, texts, st.none() | instants)
def test_a_job_is_read_back(job: Any, state: JobState, created: int, updated: int, reason: str, until: int | None):
    record = JobRecord(7, 3, job, state, created, updated, reason, until)
    assert values.job_record(sent(job_out(record))) == record


@given(
    st.builds(
        Node,
        id=texts, incarnation=texts, host=texts, pid=numbers, roles=st.lists(texts).map(tuple),
        queues=st.lists(texts).map(tuple), labels=st.lists(texts).map(tuple), tasks=st.lists(texts).map(tuple),
        seats=numbers, draining=st.booleans(), registered_at=instants, lease_until=instants,
        left_at=st.none() | instants, ttl=st.integers(0, 3_600_000_000), tzdata=texts,
    )
)  # fmt: skip
def test_a_node_is_read_back(node: Node):
    assert values.node(sent(_node(NodeShown(node, "living", [0], Held())))) == node


@given(st.builds(Term, numbers, numbers, texts, instants, numbers, texts, texts))
def test_a_term_is_read_back(term: Term):
    told = {**term_fields(term, {}, 0), "layout": term.layout, "tzdata": term.tzdata, "zones": term.zones}
    assert values.term(sent(told)) == term


@given(
    st.builds(
        Queue, texts, st.none() | instants, texts, st.none() | st.dictionaries(texts, numbers, max_size=3),
        numbers, numbers, numbers, st.none() | instants,
    )
)  # fmt: skip
def test_a_queue_is_read_back(queue: Queue):
    assert values.queue(sent(queue_fields(queue))) == queue


@pytest.mark.parametrize("told", [None, [], {}, {"run_id": 1}, "text"])
def test_an_unreadable_value_is_a_store_error(told: Any):
    with pytest.raises(StoreError, match=r"run_record: expected what this version can read"):
        values.read(values.run_record, told)
