"""Runs containers: one for each attempt, in Docker or Podman, removed when the attempt has ended.

    Container, Lease ──▶ config_of ──▶ create, start, wait ──▶ end_of ──▶ outcome_of

The engine keeps a container running when its worker dies. So every container has labels that name its worker. The
containers of dead workers are removed when a worker starts on this machine, and before one of their runs starts again
here (`container_engines.sweep`).
"""

from __future__ import annotations

import asyncio
import math
import os
import resource
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onthedot.clock import SECOND, Micros
from onthedot.model.duration import micros
from onthedot.model.job import job_name
from onthedot.model.run import Lease
from onthedot.model.task import Bounds, Container, Mount
from onthedot.model.verdict import SUCCEEDED, Outcome, OutcomeKind
from onthedot.output.records import Stream
from onthedot.runners import container_engines
from onthedot.runners.attempt import Attempt
from onthedot.runners.container_engines import EngineTrouble
from onthedot.runners.guard.protocol import ProgramEnd
from onthedot.runners.io_runner import OutputWriter
from onthedot.runners.outcomes import type_names
from onthedot.runners.task_template import Filled

if TYPE_CHECKING:
    import aiodocker
    from aiodocker.containers import DockerContainer


_ANSWER = 30.0  # seconds for requests that do not depend on the container
_LAST_WORDS = 10.0  # seconds to wait for the last output
_STOPPED_WORDS = 1.0  # the same for a container that was ended early
_TROUBLE = ("onthedot.EngineTrouble", *type_names(OSError))
_REFUSED = ("onthedot.ContainerRefused",)
_FAILED = "onthedot.ContainerFailed"


class ContainerRefused(ValueError):
    """This worker refuses the container. The text explains why, and what to do."""


class ContainerExecutor:
    """Runs containers. `find` returns the engine's URL. `mounts`: the directories that containers may mount."""

    def __init__(
        self, find: Callable[[str], str | None], wanted: str = "", *, grace: Micros, mounts: Iterable[str] = ()
    ) -> None:
        self._find = find
        self._wanted = wanted
        self._grace = grace
        self._mounts = tuple(os.path.realpath(mount) for mount in mounts)
        self._docker: aiodocker.Docker | None = None
        self._opening = asyncio.Lock()
        self._url = ""

    async def perform(self, attempt: Attempt, filled: Filled, said: OutputWriter) -> Outcome:
        """See `Executor`."""
        task = filled.task
        if not isinstance(task, Container):
            raise AssertionError(f"a task for another runner: {task!r}")
        try:
            for mount in task.mounts:
                self._check_mount(mount)
            docker = await self._open()
            await asyncio.to_thread(container_engines.sweep, self._url, attempt.lease.run_id)
            async with _errors_as_trouble(self._url):
                return await self._run(docker, task, attempt, said)
        except ContainerRefused as error:
            return Outcome(OutcomeKind.FAILED, f"refused: {error}", _REFUSED)
        except EngineTrouble as error:
            return Outcome(OutcomeKind.FAILED, str(error), _TROUBLE)

    async def warm_up(self) -> None:
        """See `Executor`."""
        await self._open()

    async def close(self) -> None:
        """See `Executor`."""
        if self._docker is not None:
            await self._docker.close()

    def _check_mount(self, mount: Mount) -> None:
        """Refuse a mount whose real path is not in an allowed directory, because a container may write to it as
        root."""
        real = os.path.realpath(mount.source)
        if not any(os.path.commonpath([real, allowed]) == allowed for allowed in self._mounts):
            raise ContainerRefused(
                f"mount {mount.source}: expected a directory that containers may have; if this is one, an operator "
                f"allows it with Settings(container_mounts=({mount.source!r},))"
            )

    async def _open(self) -> aiodocker.Docker:
        async with self._opening:
            if self._docker is not None:
                return self._docker
            url = await asyncio.to_thread(self._find, self._wanted)
            if url is None:
                raise EngineTrouble("no container engine answers: expected Docker or Podman; start it, and try again")
            import aiodocker
            import aiohttp

            timeout = aiohttp.ClientTimeout(total=_ANSWER, sock_connect=_ANSWER)
            self._docker, self._url = aiodocker.Docker(url=url, timeout=timeout), url
            return self._docker

    async def _run(self, docker: aiodocker.Docker, task: Container, attempt: Attempt, said: OutputWriter) -> Outcome:
        container = await self._create(docker, task, attempt, said)
        logs: list[asyncio.Task[None]] = []
        try:
            await container.start()
            logs += self._listen(container, said)
            await container.wait()
            await _wait_for_logs(logs, said)
            state = (await container.show())["State"]
            return outcome_of(end_of(state))
        except asyncio.CancelledError:
            await self._stop(container, attempt, said)
            logs += [] if logs else self._listen(container, said)  # stopped while it started
            await _wait_for_logs(logs, said, _STOPPED_WORDS)
            raise
        finally:
            for log in logs:
                log.cancel()
            await self._remove(container, said)

    def _listen(self, container: DockerContainer, said: OutputWriter) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(_follow(container, stream, said, self._url)) for stream in _STREAMS]

    async def _create(
        self, docker: aiodocker.Docker, task: Container, attempt: Attempt, said: OutputWriter
    ) -> DockerContainer:
        """Create a container. Pulls its image if it is missing."""
        import aiodocker

        config = config_of(task, attempt.lease, container_engines.worker_identity(), _user_processes())
        try:
            return await self._made(docker, config, said)
        except aiodocker.DockerError as error:
            if error.status != 404:
                raise
        said.remark(f"pulling {task.image}")
        await docker.images.pull(task.image)
        return await self._made(docker, config, said)

    async def _made(self, docker: aiodocker.Docker, config: dict[str, Any], said: OutputWriter) -> DockerContainer:
        """Create a container. If this is cancelled, it waits for the engine's answer and removes the container."""
        making = asyncio.ensure_future(docker.containers.create(config))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            await asyncio.wait([making], timeout=_ANSWER)
            if making.done() and not making.cancelled() and making.exception() is None:
                await self._remove(making.result(), said)
            raise

    async def _stop(self, container: DockerContainer, attempt: Attempt, said: OutputWriter) -> None:
        """Send TERM, wait for the grace, and send KILL. After a lost lease send KILL at once, because there is no time
        to wait."""
        stop_as = attempt.stop_as  # None: it timed out, or the node ends
        lost = not attempt.timed_out and (stop_as is None or stop_as.kind is OutcomeKind.LOST)
        seconds = max(1, math.ceil(self._grace / SECOND))
        try:
            async with asyncio.timeout(seconds + _ANSWER):
                await (container.kill() if lost else container.stop(t=seconds))
        except Exception as error:  # noqa: BLE001 - it is removed by force in any case
            said.remark(f"the container could not be stopped: {error}")

    async def _remove(self, container: DockerContainer, said: OutputWriter) -> None:
        try:
            async with asyncio.timeout(_ANSWER):
                await container.delete(force=True, v=True)
        except Exception as error:  # noqa: BLE001 - the attempt has its outcome; a later sweep finds the container
            said.remark(f"container {container.id[:12]} is left: {error}; it goes when its worker has ended")


def _user_processes() -> int | None:
    """Return the most processes of one user on this machine; None if unlimited. Podman cannot give a container more
    than the machine has process ids."""
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if most == resource.RLIM_INFINITY:
        return None
    with suppress(OSError, ValueError):
        most = min(most, int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii")))
    return most


_STREAMS: tuple[Stream, ...] = ("out", "err")


async def _follow(container: DockerContainer, stream: Stream, said: OutputWriter, url: str) -> None:
    """Record one of the two streams until it ends. If that fails, the record says so, and the job does not fail."""
    try:
        async with _errors_as_trouble(url):
            async for text in container.log(stdout=stream == "out", stderr=stream == "err", follow=True):
                said.feed(stream, text.encode(errors="backslashreplace"))
    except EngineTrouble as error:
        said.remark(f"[… std{stream} could not be read to its end: {error} …]")


async def _wait_for_logs(logs: list[asyncio.Task[None]], said: OutputWriter, seconds: float = _LAST_WORDS) -> None:
    """Wait a limited time for the last output, because an engine may keep a stream open."""
    if logs and (await asyncio.wait(logs, timeout=seconds))[1]:
        said.remark("[… the engine did not send the rest of the output …]")


@asynccontextmanager
async def _errors_as_trouble(url: str) -> AsyncIterator[None]:
    """Turn all errors of the engine, and of the connection to it, into `EngineTrouble`."""
    import aiodocker
    import aiohttp

    try:
        yield
    except aiodocker.DockerError as error:
        raise EngineTrouble(f"the container engine refuses: {error.message}") from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise EngineTrouble(
            f"the container engine at {url} does not answer: {str(error) or type(error).__name__}"
        ) from error


# ── how a container is configured, and what its end means. Pure ─────────────────────────────────────────────────────


_FEWEST_TASKS = 16
"""The smallest limit of a container's tasks. Its starter has some ten threads, and the kernel counts them. With a
smaller limit an engine sometimes cannot start the container."""


def config_of(task: Container, lease: Lease, worker: str, user_processes: int | None = None) -> dict[str, Any]:
    """Return the configuration of a container for Docker's API. This sets every relevant option, so that no default
    applies.

    `user_processes`: the most processes of one user on this machine. Without it Podman asks for more, and fails if it
    cannot raise the limit. `PidsLimit` limits the container itself.
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
    if task.argv or task.entrypoint:  # else the image's arguments would go to another program
        config["Cmd"] = list(task.argv)
    if task.user:
        config["User"] = task.user
    return config


def labels_of(lease: Lease, worker: str) -> dict[str, str]:
    """Return the labels that name a container's worker, run and attempt."""
    return {
        container_engines.WORKER_LABEL: worker,
        container_engines.RUN_LABEL: str(lease.run_id),
        container_engines.FENCE_LABEL: str(lease.fence),
        container_engines.ATTEMPT_LABEL: str(lease.attempt),
        container_engines.JOB_LABEL: job_name(lease.record.job),
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
    """Return the end of a container, from the state that the engine reports.

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
    """Return the outcome of an attempt whose container ended like this.

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
