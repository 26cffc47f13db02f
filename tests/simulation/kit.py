"""A small and busy workload for directed faults: six jobs, always something running, edited once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onthedot as otd
from onthedot.define.options import build_job
from onthedot.job import Call
from onthedot.testing.simulation import CALM, Behaviour, Scenario, Workload
from onthedot.testing.simulation.faults import Fault, from_json

FAULTS = Path(__file__).parent / "faults"
EDITED_AT = 150.0


def busy() -> Workload:
    """Every seven seconds or so each job runs for three to five; some fail and are tried again."""
    jobs, behaviours = {}, {}
    for number in range(6):
        name = f"busy{number}"
        options = {"name": name, "schedule": otd.every(f"{7 + number}s"), "args": {"mark": 0}, "overlap": "allow"}
        if number % 2:
            options["retry"] = otd.Retry(4, delay="2s", jitter=False)
        jobs[name] = build_job(Call(handler=name), options)
        behaviours[name] = Behaviour(3.0, 5.0, 0.5 if number % 2 else 0.0)
    edits = tuple((EDITED_AT, replace(job, args={"mark": 1})) for job in jobs.values())
    return Workload(jobs, behaviours, edits, ())


def directed(name: str) -> Scenario:
    """A scenario of a committed fault file: calm but for its faults, twelve minutes."""
    return Scenario(seed=name, minutes=12, weather=CALM, workload=busy(), faults=tuple(read(name)))


def read(name: str) -> list[Fault]:
    return from_json((FAULTS / f"{name}.json").read_text())
