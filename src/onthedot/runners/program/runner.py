"""Runs commands and steps. Each attempt is a task of the engine's loop, and the guard runs its programs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from onthedot import fault_points
from onthedot.clock import SECOND, Clock, Micros
from onthedot.loop import Service
from onthedot.model.errors import LeaseLost, StoreUnavailable
from onthedot.model.run import Lease
from onthedot.model.task import Steps
from onthedot.model.verdict import Outcome, OutcomeKind
from onthedot.runners.attempt import Attempt, stopped_before_start
from onthedot.runners.outcomes import failed, timed_out, without_secrets
from onthedot.runners.program.program_attempt import AttemptOver, AttemptTimedOut, ProgramAttempt
from onthedot.runners.program.services import ProgramServices
from onthedot.runners.program.workspace import RunFolder, SpareFolders, sweep
from onthedot.runners.runner import BaseRunner, Host
from onthedot.settings import Settings

_MOST_REMARKS = 10
_KEEP_PATIENCE = 60.0  # an outcome waits so many seconds until its output is kept; then keeping continues without it
_SWEEP_EVERY: Micros = 600 * SECOND


class ProgramRunner(BaseRunner):
    """Runs attempts at commands and steps. Used on the engine's loop only."""

    def __init__(self, host: Host, services: ProgramServices) -> None:
        super().__init__(host)
        self.spool = services.spool
        self._services = services
        self._settings = host.settings
        self._waiting: deque[Attempt] = deque()
        self._running: set[Attempt] = set()
        self._leaving: set[asyncio.Task[None]] = set()  # of ended attempts whose output is being kept
        self._folders: dict[Attempt, str] = {}  # run folders in use
        self._spares = SpareFolders(self._seats)

    @property
    def busy(self) -> bool:
        """Return whether any attempt is running."""
        return bool(self._running)

    def places(self) -> set[str]:
        """Return the names of the run folders that attempts use now."""
        return set(self._folders.values())

    def start(self, attempts: list[Attempt]) -> None:
        self._waiting.extend(attempts)
        self._fill_seats()

    def stop(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            if attempt in self._waiting:
                self._waiting.remove(attempt)
                self._end(attempt, stopped_before_start(attempt))
            elif attempt in self._running and attempt.handle is not None:
                handle, attempt.handle = attempt.handle, None  # only once, because a second cancel would end the grace
                handle.cancel()
                if not attempt.started_at:  # a task that is cancelled before its first step never ends its attempt
                    self._end(attempt, stopped_before_start(attempt))

    def close(self) -> None:
        """Does nothing: the guard is closed by its owner."""

    async def left(self) -> None:
        """Wait a limited time until the output of ended attempts is handed in, and remove empty folders."""
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=_KEEP_PATIENCE)
        await self._services.files.do(self._spares.clear)

    def _fill_seats(self) -> None:
        while self._waiting and len(self._running) < self._seats:
            attempt = self._waiting.popleft()
            self._running.add(attempt)
            attempt.handle = asyncio.get_running_loop().create_task(self._perform(attempt))

    async def _perform(self, attempt: Attempt) -> None:
        """Run one attempt. Every result and every error in here becomes one outcome."""
        attempt.started_at = self._clock.now()
        folder = RunFolder(self.spool, attempt.lease, self._spares)
        self._folders[attempt] = folder.run.name
        program = ProgramAttempt(attempt, folder, self._services, self._settings, self._clock)
        if self._tell_started is not None:
            self._tell_started([attempt])
        fault_points.point("attempt.before_call")
        timer = None
        if attempt.timeout:  # the guard applies the time-out to programs; this applies it between programs
            timer = asyncio.get_running_loop().call_later(attempt.timeout / SECOND, self._time_is_up, attempt)
        try:
            outcome = await program.perform()
        except asyncio.CancelledError as error:
            outcome = timed_out(attempt.timeout) if attempt.timed_out else attempt.stop_as or failed(error)
        except AttemptTimedOut:
            outcome = timed_out(attempt.timeout)
        except AttemptOver as over:
            outcome = attempt.stop_as or over.outcome
        except StoreUnavailable as error:  # the store failed before the first program, so nothing has begun
            outcome = attempt.stop_as or Outcome(OutcomeKind.RELEASED, str(error))
        except LeaseLost as error:
            outcome = attempt.stop_as or Outcome(OutcomeKind.LOST, str(error))
        except Exception as error:  # noqa: BLE001 - whatever goes wrong on the way is the outcome of this attempt
            outcome = failed(error)
        finally:
            if timer is not None:
                timer.cancel()
        fault_points.point("attempt.after_call")
        outcome = without_secrets(outcome, program.forms)
        outcome = await self._clear_up(attempt, program, outcome)
        attempt.handle = None
        if program.has_left:
            self._folders.pop(attempt, None)
        else:
            await self._leave_in_time(attempt, program, outcome)
        self._end(attempt, outcome)

    async def _leave_in_time(self, attempt: Attempt, program: ProgramAttempt, outcome: Outcome) -> None:
        """Hand in the output, and wait a limited time for that. After that time the outcome is reported first."""
        leaving = asyncio.get_running_loop().create_task(self._leave(attempt, program, outcome))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
        if outcome.kind is not OutcomeKind.LOST:  # else another node waits for the lease
            await asyncio.wait({leaving}, timeout=_KEEP_PATIENCE)

    async def _clear_up(self, attempt: Attempt, program: ProgramAttempt, outcome: Outcome) -> Outcome:
        """Run the steps that always run, after a time-out or a cancel. Returns the attempt's outcome.

        This does nothing if the lease is lost or the node stops. It ends at once if the attempt is stopped meanwhile.
        """
        lost = attempt.stop_as is not None and attempt.stop_as.kind is OutcomeKind.LOST
        if outcome.kind not in (OutcomeKind.TIMED_OUT, OutcomeKind.CANCELLED) or lost:
            return outcome
        attempt.handle = asyncio.current_task()
        try:
            await program.clear_up()
        except asyncio.CancelledError:
            return attempt.stop_as or outcome
        except Exception as error:  # noqa: BLE001 - the attempt ended before, so an error here changes nothing
            program.say(f"the steps that always run failed: {error}")
        return outcome

    def _time_is_up(self, attempt: Attempt) -> None:
        if attempt.handle is not None:
            attempt.timed_out = True
            handle, attempt.handle = attempt.handle, None
            handle.cancel()

    async def _leave(self, attempt: Attempt, program: ProgramAttempt, outcome: Outcome) -> None:
        """Hand in the attempt's output. Remove its workspace if the run does not need it any more."""
        folder, useless = program.folder, outcome.kind is OutcomeKind.SUCCEEDED
        try:
            try:
                await self._hand_in(program, attempt.lease)
            except BaseException:  # also when cancelled: the job's user keeps no workspace; raised again
                await asyncio.to_thread(folder.give_back)
                raise
            await asyncio.to_thread(folder.discard if useless else folder.give_back)
        except Exception as error:  # noqa: BLE001 - what cannot be kept never fails a job; it stays in the spool
            program.say(f"its output could not be kept, and stays in the spool: {error}")
        finally:
            self._folders.pop(attempt, None)

    async def _hand_in(self, program: ProgramAttempt, lease: Lease) -> None:
        """Hand in the record and the artifacts. Remarks come first, because this ends the record."""
        keeper, task = self._services.keeper, lease.record.job.task
        if keeper is None:
            return
        wanted = task.artifacts if isinstance(task, Steps) else ()
        artifacts, left_out = await asyncio.to_thread(program.folder.artifacts, wanted)
        for remark in left_out[:_MOST_REMARKS]:
            program.say(remark)
        await asyncio.to_thread(keeper.hand_in, lease, _named(artifacts, program.hidden))

    def _end(self, attempt: Attempt, outcome: Outcome) -> None:
        self._running.discard(attempt)
        attempt.outcome = outcome
        attempt.ended_at = self._clock.now()
        self._tell_ended([attempt])
        self._fill_seats()


def _named(artifacts: Mapping[str, Path], hidden: Callable[[str], str]) -> list[tuple[str, Path]]:
    """Return the artifacts with names without secrets, each name once.

    >>> [name for name, _ in _named({"a": Path(), "b": Path()}, lambda name: "***")]
    ['***', '*** (2)']
    """
    named: dict[str, Path] = {}
    for name, path in sorted(artifacts.items()):
        shown = once = hidden(name)
        number = 1
        while once in named:
            number += 1
            once = f"{shown} ({number})"
        named[once] = path
    return list(named.items())


# ── old workspaces ────────────────────────────────────────────────────────────────────────────────────────────


class SpoolSweep(Service):
    """Removes run folders that nobody has used for `keep_workspaces`. Does nothing if no programs run here."""

    name = "spool sweep"

    def __init__(self, settings: Settings, clock: Clock) -> None:
        super().__init__()
        self._settings = settings
        self._clock = clock
        self._runner: ProgramRunner | None = None

    def open(self, runner: ProgramRunner) -> None:
        """Sweep the spool of this runner from now on."""
        self._runner = runner
        self.wake()  # the first program's job may be stored long after the start

    async def tick(self, now: Micros) -> Micros | None:
        """Remove old folders once."""
        del now  # files have the time of this machine, not of the store
        if self._runner is None:
            return None
        await asyncio.to_thread(
            sweep,
            self._runner.spool,
            now=self._clock.now(),
            keep=self._settings.keep_workspaces,
            in_use=self._runner.places(),
        )
        return _SWEEP_EVERY
