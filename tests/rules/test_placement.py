"""Runs are assigned to nodes that can execute them, and to the least loaded of these."""

from __future__ import annotations

from collections import Counter
from typing import Any

from onthedot.model.job import Call, Job
from onthedot.rules.placement import Place, assign, targets


def job(**fields: Any) -> Job:
    return Job(name="j", task=Call(handler="j"), **fields)


def place(name: str, load: int = 0, **offers: Any) -> Place:
    queues, labels = offers.get("queues", {"default"}), offers.get("labels", ())
    tasks = offers.get("tasks", {"call:j"})
    return Place(f"node-{name}", name, frozenset(queues), frozenset(labels), frozenset(tasks), load)


def test_on_all_targets_every_node_that_can_run_the_job():
    places = [
        place("a"), place("b", labels=["gpu"]), place("c", queues={"mail"}), place("d", tasks={"call:other"}),
    ]  # fmt: skip
    assert targets(job(), places) == ("",)
    assert targets(job(on="all"), places) == ("node-a", "node-b")
    assert targets(job(on="all", labels=frozenset({"gpu"})), places) == ("node-b",)
    assert targets(job(on="all"), []) == ()


def test_the_least_loaded_node_gets_the_next_run():
    wanted = [(number, job(), "") for number in range(6)]
    chosen = assign(wanted, [place("a", 3), place("b", 0), place("c", 1)], most=10)
    assert [run for run, _ in chosen] == list(range(6)), "expected all runs in their order"
    assert Counter(name for _, name in chosen) == {"b": 3, "c": 2, "a": 1}


def test_a_node_gets_at_most_k_runs_and_the_rest_wait():
    wanted = [(number, job(), "") for number in range(9)]
    chosen = assign(wanted, [place("a", 1), place("b")], most=3)
    assert Counter(name for _, name in chosen) == {"a": 2, "b": 3}


def test_a_run_returns_to_its_previous_node_only_if_no_other_can_run_it():
    assert assign([(1, job(), "a")], [place("a", 0), place("b", 5)], most=10) == [(1, "b")]
    assert assign([(1, job(), "a")], [place("a", 0), place("b", 5, labels=[], tasks=())], most=10) == [(1, "a")]


def test_only_a_node_that_can_run_the_job_is_chosen():
    gpu = job(labels=frozenset({"gpu"}))
    places = [place("a"), place("b", 9, labels=["gpu"])]
    assert assign([(1, gpu, ""), (2, job(), "")], places, most=10) == [(1, "b"), (2, "a")]
    assert assign([(1, gpu, "")], [place("a")], most=10) == []
