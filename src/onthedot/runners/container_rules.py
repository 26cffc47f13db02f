"""Decides how a container is configured, and what its end means for the attempt. Pure."""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping
from typing import Any

from onthedot.clock import SECOND
from onthedot.model.duration import micros
from onthedot.model.job import job_name
from onthedot.model.run import Lease
from onthedot.model.task import Bounds, Container
from onthedot.model.verdict import SUCCEEDED, Outcome, OutcomeKind
from onthedot.runners import process_identity
from onthedot.runners.program.protocol import ProgramEnd

_FAILED = "onthedot.ContainerFailed"
_FEWEST_TASKS = 16
"""Least tasks of a container. Its starter has some ten threads, and the kernel counts them. With fewer than this an
engine sometimes cannot start it."""


def config_of(task: Container, lease: Lease, worker: str, user_processes: int | None = None) -> dict[str, Any]:
    """The configuration of a container for Docker's API. Sets all that matters, and leaves nothing to defaults.

    `user_processes`: the most processes of one user on this machine. Podman would ask for more, and be refused where
    nobody may raise it. `PidsLimit` limits the container itself.
    """
    bounds = lease.record.job.bounds
    environment = {
        **task.env,
        "OTD_RUN_ID": str(lease.run_id),
        "OTD_ATTEMPT": str(lease.attempt),
        "OTD_FENCE": str(lease.fence),
    }
    config: dict[str, Any] = {
        "Image": task.image,
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "Labels": labels_of(lease, worker),
        "Tty": False,  # its two streams stay apart
        "NetworkDisabled": task.network == "none",
        "HostConfig": {
            "NetworkMode": task.network,
            "RestartPolicy": {"Name": "no"},
            "SecurityOpt": ["no-new-privileges"],
            "LogConfig": {"Type": "json-file", "Config": {"max-size": f"{2 * bounds.output}b"}},
            "Ulimits": _ulimits(bounds, user_processes),
            "Mounts": [
                {"Type": "bind", "Source": mount.source, "Target": mount.target, "ReadOnly": not mount.writable}
                for mount in task.mounts
            ],
            **_limits(bounds),
        },
    }
    if task.entrypoint:
        config["Entrypoint"] = [task.entrypoint]
    if task.argv or task.entrypoint:  # without them, arguments of the image's own program would go to another one
        config["Cmd"] = list(task.argv)
    if task.user:
        config["User"] = task.user
    return config


def labels_of(lease: Lease, worker: str) -> dict[str, str]:
    """The labels that name its worker, run and attempt."""
    return {
        process_identity.WORKER: worker,
        process_identity.RUN: str(lease.run_id),
        process_identity.FENCE: str(lease.fence),
        process_identity.ATTEMPT: str(lease.attempt),
        process_identity.JOB: job_name(lease.record.job),
    }


def _limits(bounds: Bounds) -> dict[str, int]:
    limits: dict[str, int] = {}
    if bounds.memory is not None:
        limits |= {"Memory": bounds.memory, "MemorySwap": bounds.memory}  # together: no swap
    if bounds.processes is not None:
        limits["PidsLimit"] = max(bounds.processes, _FEWEST_TASKS)
    return limits


def _ulimits(bounds: Bounds, user_processes: int | None) -> list[dict[str, Any]]:
    cpu = None if bounds.cpu is None else math.ceil(micros(bounds.cpu) / SECOND)
    wanted = {
        "core": 0, "cpu": cpu, "nofile": bounds.files, "fsize": bounds.file_bytes, "nproc": user_processes,
    }  # fmt: skip
    return [{"Name": name, "Soft": most, "Hard": most} for name, most in wanted.items() if most is not None]


def end_of(state: Mapping[str, Any]) -> ProgramEnd:
    """The end of a container, from the state that the engine reports.

    >>> end_of({"ExitCode": 3}).in_words(), end_of({"ExitCode": 143}).in_words()
    ('exit code 3', 'killed by SIGTERM')
    >>> end_of({"ExitCode": 137, "OOMKilled": True}).kind
    'out_of_memory'
    """
    code = int(state.get("ExitCode") or 0)
    if code and state.get("OOMKilled"):
        return ProgramEnd("out_of_memory", code=code)
    if code - 128 in {one.value for one in signal.Signals}:
        return ProgramEnd("signalled", signal=code - 128)
    return ProgramEnd("exited", code=code)


def outcome_of(end: ProgramEnd) -> Outcome:
    """The outcome of an attempt whose container ended so.

    >>> outcome_of(ProgramEnd("exited", code=2)).error_types
    ('onthedot.ExitCode.2', 'onthedot.ContainerFailed')
    """
    if end == ProgramEnd("exited", code=0):
        return SUCCEEDED
    match end.kind:
        case "exited":
            kind = f"onthedot.ExitCode.{end.code}"
        case "out_of_memory":
            kind = "onthedot.OutOfMemory"
        case _:
            kind = "onthedot.Killed"
    return Outcome(OutcomeKind.FAILED, end.in_words(), (kind, _FAILED))
