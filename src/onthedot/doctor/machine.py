"""What this machine offers."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from onthedot.doctor.findings import Finding, finding
from onthedot.node.zone_data import UNKNOWN, tzdata_version
from onthedot.runners import probes
from onthedot.runners.probes import Probe
from onthedot.runners.program.workspace import spool_of
from onthedot.settings import Settings

LEAST_DISK = 1 << 30
"""Bytes that should be free where programs work and what they say is kept."""


class Wants(NamedTuple):
    """What the configuration asks of a machine, beside what every node needs."""

    sandbox: bool = False
    user: bool = False
    containers: bool = False
    git: bool = False
    programs: bool = False


def look_at_machine(settings: Settings, wants: Wants) -> Iterator[Finding]:
    """One finding for each thing, most important first."""
    yield Finding("python", "ok", f"{platform.python_implementation()} {platform.python_version()}", wanted=True)
    yield zones()
    yield open_files(settings)
    passed = os.geteuid() == 0 and (wants.user or wants.sandbox)
    yield spool(spool_of(settings), wanted=wants.programs, passed=passed)
    yield finding(
        "bubblewrap",
        probes.bubblewrap(),
        costs="no isolation 'sandbox': jobs that ask for it wait for another worker",
        remedy="install bubblewrap, and let unprivileged user namespaces be made (or run as root)",
        wanted=wants.sandbox,
    )
    yield finding(
        "user",
        probes.user_level(),
        costs="no isolation 'user': programs run as this user, and can do what it can",
        remedy="start the worker as root, on Linux 5.12 or later, and let it make mount namespaces",
        wanted=wants.user,
    )
    yield control_groups(probes.cgroups())
    yield finding(
        "containers",
        probes.container_engine(),
        costs="no container jobs here: they wait for another worker",
        remedy="start Docker or Podman and let this user use its socket, or set DOCKER_HOST",
        wanted=wants.containers,
    )
    yield finding(
        "git",
        probes.git(),
        costs="no job with 'source: git' can check its files out",
        remedy="install git 2.37 or later",
        wanted=wants.git,
    )


def zones() -> Finding:
    """Time zone data: where it is missing, no schedule in a zone can be planned."""
    try:
        ZoneInfo("Europe/Berlin")
    except (ZoneInfoNotFoundError, OSError):
        costs = "schedules in a time zone cannot be planned"
        return Finding("tzdata", "missing", "no time zone data", costs, "pip install tzdata", wanted=True)
    version = tzdata_version()
    if version == UNKNOWN:
        costs = "nodes cannot tell whose rules are newer, and plan by their own"
        return Finding(
            "tzdata", "broken", "of an unknown version", costs, "install Debian's tzdata, or pip install tzdata"
        )
    return Finding("tzdata", "ok", version, wanted=True)


def open_files(settings: Settings) -> Finding:
    """How many files this process may have open, and how many a node of these settings may need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 256 + 4 * settings.seats + 8 * settings.processes
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return Finding("open files", "ok", f"{'any number' if soft == resource.RLIM_INFINITY else soft}", wanted=True)
    costs = f"{settings.seats} seats and {settings.processes} processes may need {needed}: attempts can fail to start"
    return Finding("open files", "broken", str(soft), costs, f"ulimit -n {max(needed, min(hard, 65_536))}", wanted=True)


def spool(folder: Path, *, wanted: bool, passed: bool = False) -> Finding:
    """Room for workspaces and records, and whether we may use it. `passed`: so must programs' users."""
    costs, remedy = "commands and steps have no room to work", "make room, or name another folder as the spool"
    there = next((place for place in (folder, *folder.parents) if place.exists()), Path("/"))
    try:
        free = shutil.disk_usage(there).free
    except OSError as error:
        return Finding("spool", "broken", f"{folder}: {error.strerror}", costs, remedy, wanted)
    said = f"{folder}: {free / (1 << 30):.1f} GiB free"
    if not os.access(there, os.W_OK | os.X_OK):
        return Finding("spool", "broken", f"{folder}: may not be written to", costs, remedy, wanted)
    closed = [above for above in folder.parents if above.exists() and not above.stat().st_mode & stat.S_IXOTH]
    if passed and closed:
        costs = "programs with users of their own cannot reach their workspaces, and are refused"
        return Finding("spool", "broken", f"{folder}: {closed[0]} is closed", costs, f"chmod o+x {closed[0]}", wanted)
    if free < LEAST_DISK:
        return Finding("spool", "broken", said, costs, remedy, wanted)
    return Finding("spool", "ok", said, wanted=wanted)


def control_groups(found: probes.Cgroups) -> Finding:
    """Bounds over whole trees of processes, where the kernel lets us."""
    costs = "memory and processor time are bounded for each process of a job, not for all of them together"
    if not found.version:
        return Finding("cgroups", "missing", "no control groups", costs, "mount cgroup2 at /sys/fs/cgroup")
    said = f"v{found.version}, {', '.join(sorted(found.controllers)) or 'no controllers'}"
    lacking = {"memory", "pids"} - found.controllers
    if found.writable and not lacking:
        return Finding("cgroups", "ok", f"{said}; writable")
    why = f"without {' and '.join(sorted(lacking))}" if lacking else "not writable"
    remedy = "delegate a group to the worker's user (systemd: Delegate=yes), or run as root"
    return finding("cgroups", Probe("broken", f"{said}; {why}"), costs=costs, remedy=remedy)
