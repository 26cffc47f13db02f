"""Checks a machine and a configuration: the store, space for output, and the isolation of programs."""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from onthedot.clock import SECOND, Clock, Micros, SystemClock
from onthedot.ids import Ids, RandomIds
from onthedot.model.errors import DefinitionError, OnTheDotError
from onthedot.model.job import Job
from onthedot.model.task import Command, Container, Steps
from onthedot.node.zone_data import UNKNOWN, tzdata_version
from onthedot.runners import probes
from onthedot.runners.probes import Probe, State
from onthedot.runners.program.workspace import spool_of
from onthedot.settings import Settings
from onthedot.stores.addresses import exposed, hosts_of, is_local, shown_url
from onthedot.stores.connect import open_store, sqlite_path
from onthedot.stores.protocol import Store
from onthedot.stores.values import About

PATIENCE = 5
"""Seconds for a store or a place for output to answer."""

FAR_OFF: Micros = SECOND // 2
"""From this offset on a node reports that its clock is off."""

COSTS = "logs and artifacts of attempts are not kept"

LEAST_DISK = 1 << 30
"""Bytes that should be free for workspaces and output."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The state of one thing. If it is not ok, also the consequence and the remedy. `wanted`: the configuration needs
    it, so it is a fault if it does not work.

    >>> Finding("git", "missing", "git is not installed", "no sources", "install git").is_fault
    False
    """

    name: str
    state: State
    found: str
    costs: str = ""
    remedy: str = ""
    wanted: bool = False

    @property
    def is_fault(self) -> bool:
        """Whether a wanted thing does not work."""
        return self.wanted and self.state != "ok"


class Configuration(NamedTuple):
    """A configuration to check, with its store and its place for output."""

    settings: Settings
    jobs: tuple[Job, ...] = ()
    store: str = ""
    store_wanted: bool = False  # true if the user named the store
    output: str = ""


class Wants(NamedTuple):
    """What a configuration needs of a machine, in addition to what every node needs."""

    sandbox: bool = False
    user: bool = False
    containers: bool = False
    git: bool = False
    programs: bool = False


def check_all(asked: Configuration) -> list[Finding]:
    """Check everything. One finding for each thing, the most important first."""
    return [*asyncio.run(_check_places(asked)), *check_machine(asked.settings, wants_of(asked.settings, asked.jobs))]


async def _check_places(asked: Configuration) -> list[Finding]:
    found = await check_store(asked.store, asked.settings, wanted=asked.store_wanted)
    return [*found, await check_output(asked.output, RandomIds())] if asked.output else found


def wants_of(settings: Settings, jobs: Iterable[Job]) -> Wants:
    """Return what a configuration needs of a machine.

    >>> wants_of(Settings(), [Job(name="build", task=Command(argv=("make",)), isolation="sandbox")]).sandbox
    True
    """
    known = list(jobs)
    levels = {str(getattr(settings, "least_isolation", "none")), *(str(job.isolation) for job in known)}
    tasks = [job.task for job in known]
    return Wants(
        sandbox="sandbox" in levels,
        user="user" in levels,
        containers=any(isinstance(task, Container) for task in tasks),
        git=any(isinstance(task, Steps) and task.source is not None for task in tasks),
        programs=any(isinstance(task, Command | Steps) for task in tasks),
    )


def finding_of(name: str, probe: Probe, *, costs: str, remedy: str, wanted: bool = False) -> Finding:
    """Return the finding of a probe. If it is ok, consequence and remedy are left out."""
    if probe.state == "ok":
        return Finding(name, "ok", probe.found, wanted=wanted)
    return Finding(name, probe.state, probe.found, costs, remedy, wanted)


# ── the store ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def check_store(url: str, settings: Settings, *, wanted: bool) -> list[Finding]:
    """Check the store, without creating or migrating it. `wanted`: it was named, not the default."""
    if url.startswith("memory:"):
        return [Finding("store", "ok", "memory; nothing is kept when the process ends", wanted=True)]
    shown = shown_url(url)
    path = sqlite_path(url)
    if path is not None and not (path.exists() and path.stat().st_size):
        costs = "there are no jobs and no runs yet"
        return [
            Finding("store", "missing", f"{shown}: no such file", costs, "'onthedot store migrate' makes it", wanted)
        ]
    try:
        async with asyncio.timeout(PATIENCE):
            store = await open_store(url, read_only=True)
            try:
                about, way = await store.about(), _connection(url)
                return [*_store_findings(shown, about, settings), *way, await _clock(store, SystemClock())]
            finally:
                await store.close()
    except TimeoutError:
        found, remedy = f"{shown}: no answer within {PATIENCE} s", "see that the server runs, and can be reached"
    except DefinitionError:
        raise  # the URL itself is wrong
    except OnTheDotError as error:
        found, remedy = str(error), "do what it says"
    return [Finding("store", "broken", found, "nothing can be planned, run or looked at", remedy, wanted=True)]


def _connection(url: str) -> list[Finding]:
    """Check how safe the connection to a store on another machine is."""
    trouble = exposed(url)
    if trouble:
        found, _, remedy = trouble.partition("; ")
        return [Finding("connection", "missing", found, "what is stored can be read or changed on the way", remedy)]
    if all(map(is_local, hosts_of(url))):
        return []
    return [Finding("connection", "ok", "encrypted, and the server's certificate is checked")]


def _store_findings(shown: str, about: About, settings: Settings) -> Iterator[Finding]:
    yield Finding("store", "ok", f"{shown}: {about.product} {about.version}, tables up to date", wanted=True)
    yield Finding("kept", "ok", about.promise)
    if about.caution:
        found, _, remedy = about.caution.partition("; ")
        yield Finding("tables", "broken", found, "its data may be split between two schemas", remedy)
    pools = [f"{settings.seats} seats and {settings.processes} processes execute"] if settings.works else []
    pools += (
        [f"{settings.batch} runs to a write are planned, {settings.lookahead // SECOND} s ahead"]
        if settings.plans
        else []
    )
    pools += (
        [
            f"the API takes {settings.api_rate:g} requests a second of a key, {settings.api_burst} at once, and "
            f"{settings.api_followers} followers"
        ]
        if settings.plans
        else []
    )
    pools += _connections(about, settings) if about.connections else []
    yield Finding("pools", "ok", "; ".join(pools))


def _connections(about: About, settings: Settings) -> list[str]:
    told = [f"{about.connections} connections to the store for each event loop"]
    return [*told, f"{settings.api_connections} for the API's"] if settings.api_connections else told


async def _clock(store: Store, clock: Clock) -> Finding:
    """Check how far this machine's clock is from the store's clock, by which runs start."""
    if store.clock is not None:
        return Finding("clock", "ok", "this machine's own is the store's")
    before = clock.now()
    told = await store.tell_time()
    after = clock.now()
    offset, unsure = told - (before + after) // 2, (after - before) // 2
    said = (
        f"{abs(offset) / SECOND:.3f} s {'behind' if offset > 0 else 'ahead of'} the store's (± {unsure / SECOND:.3f} s)"
    )
    if abs(offset) - unsure < FAR_OFF:
        return Finding("clock", "ok", said)
    return Finding(
        "clock", "broken", said, "nothing starts early, but logs of this machine are off", "let NTP set the clock"
    )


# ── the place for output ──────────────────────────────────────────────────────────────────────────────────────────────


async def check_output(url: str, ids: Ids) -> Finding:
    """Write a small object to a directory or to `s3://bucket/prefix`, read it back, and remove it."""
    import obstore
    from obstore.exceptions import BaseError

    shown = shown_url(url) if "://" in url else url
    name, words = f"onthedot-probe-{ids.token()}", b"onthedot was here"
    try:
        async with asyncio.timeout(PATIENCE):
            place = _open_place(url)
            await obstore.put_async(place, name, words)
            read = bytes(await (await obstore.get_async(place, name)).bytes_async())
            await obstore.delete_async(place, name)
    except TimeoutError:
        return _output_broken(f"{shown}: no answer within {PATIENCE} s")
    except (BaseError, OSError, ValueError) as error:
        return _output_broken(f"{shown}: {str(error).strip().partition(chr(10))[0][:300]}")
    if read != words:
        return _output_broken(f"{shown}: expected what was written, got something else")
    return Finding("output", "ok", f"{shown}: written and read back", wanted=True)


def _output_broken(found: str) -> Finding:
    return Finding(
        "output", "broken", found, COSTS, "see that it is there, and that the keys let us write", wanted=True
    )


def _open_place(url: str) -> Any:
    """Open a directory, which must exist, or a bucket."""
    from obstore.store import LocalStore, from_url

    if "://" not in url or url.startswith("file://"):
        folder = Path(url.removeprefix("file://"))
        if not folder.is_dir():
            raise ValueError("expected a directory, found none")
        return LocalStore(folder)
    return from_url(
        url, client_options={"timeout": f"{PATIENCE}s", "allow_http": True}, retry_config={"max_retries": 0}
    )


# ── this machine ──────────────────────────────────────────────────────────────────────────────────────────────────────


def check_machine(settings: Settings, wants: Wants) -> Iterator[Finding]:
    """Check the machine. One finding for each thing, the most important first."""
    yield Finding("python", "ok", f"{platform.python_implementation()} {platform.python_version()}", wanted=True)
    yield zones()
    yield open_files(settings)
    passed = os.geteuid() == 0 and (wants.user or wants.sandbox)
    yield spool(spool_of(settings), wanted=wants.programs, passed=passed)
    yield finding_of(
        "bubblewrap",
        probes.bubblewrap(),
        costs="no isolation 'sandbox': jobs that ask for it wait for another worker",
        remedy="install bubblewrap, and let unprivileged user namespaces be made (or run as root)",
        wanted=wants.sandbox,
    )
    yield finding_of(
        "user",
        probes.user_level(),
        costs="no isolation 'user': programs run as this user, and can do what it can",
        remedy="start the worker as root, on Linux 5.12 or later, and let it make mount namespaces",
        wanted=wants.user,
    )
    yield control_groups(probes.cgroups())
    yield finding_of(
        "containers",
        probes.container_engine(),
        costs="no container jobs here: they wait for another worker",
        remedy="start Docker or Podman and let this user use its socket, or set DOCKER_HOST",
        wanted=wants.containers,
    )
    yield finding_of(
        "git",
        probes.git(),
        costs="no job with 'source: git' can check its files out",
        remedy="install git 2.37 or later",
        wanted=wants.git,
    )


def zones() -> Finding:
    """Check the time zone data, without which no schedule in a zone can be planned."""
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
    """Check how many files this process may open, against what a node with these settings may need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 256 + 4 * settings.seats + 8 * settings.processes
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return Finding("open files", "ok", f"{'any number' if soft == resource.RLIM_INFINITY else soft}", wanted=True)
    costs = f"{settings.seats} seats and {settings.processes} processes may need {needed}: attempts can fail to start"
    return Finding("open files", "broken", str(soft), costs, f"ulimit -n {max(needed, min(hard, 65_536))}", wanted=True)


def spool(folder: Path, *, wanted: bool, passed: bool = False) -> Finding:
    """Check the room for workspaces and records, and its permissions. `passed`: users of programs need them, too."""
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
    """Check the limits for whole trees of processes."""
    costs = "memory and processor time are bounded for each process of a job, not for all of them together"
    if not found.version:
        return Finding("cgroups", "missing", "no control groups", costs, "mount cgroup2 at /sys/fs/cgroup")
    said = f"v{found.version}, {', '.join(sorted(found.controllers)) or 'no controllers'}"
    lacking = {"memory", "pids"} - found.controllers
    if found.writable and not lacking:
        return Finding("cgroups", "ok", f"{said}; writable")
    why = f"without {' and '.join(sorted(lacking))}" if lacking else "not writable"
    remedy = "delegate a group to the worker's user (systemd: Delegate=yes), or run as root"
    return finding_of("cgroups", Probe("broken", f"{said}; {why}"), costs=costs, remedy=remedy)
