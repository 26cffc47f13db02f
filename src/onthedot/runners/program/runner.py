"""Runs commands and steps: each attempt is a task of the engine's loop, and its programs are the guard's."""

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
from onthedot.runners.attempt import Attempt, never_begun
from onthedot.runners.outcomes import failed, timed_out, without_secrets
from onthedot.runners.program.program_attempt import Over, ProgramAttempt, TimeIsUp
from onthedot.runners.program.program_services import ProgramServices
from onthedot.runners.program.workspace import RunFolder, SpareFolders, sweep
from onthedot.runners.runner import BaseRunner, Host
from onthedot.settings import Settings

_MOST_REMARKS = 10
_KEEP_PATIENCE = 60.0  # seconds that an end waits for its output to be kept; it goes on behind it


class ProgramRunner(BaseRunner):
    """Runs attempts at commands and steps. All of it on the engine's loop."""

    def __init__(self, host: Host, neighbours: ProgramServices) -> None:
        super().__init__(host)
        self.spool = neighbours.spool
        self._neighbours = neighbours
        self._settings = host.settings
        self._waiting: deque[Attempt] = deque()
        self._running: set[Attempt] = set()
        self._leaving: set[asyncio.Task[None]] = set()  # ended, and their output is being kept
        self._places: dict[Attempt, str] = {}  # what is in use
        self._spares = SpareFolders(self._seats)

    @property
    def busy(self) -> bool:
        """Whether anything runs."""
        return bool(self._running)

    def places(self) -> set[str]:
        """The places that attempts use now, by name."""
        return set(self._places.values())

    def start(self, attempts: list[Attempt]) -> None:
        self._waiting.extend(attempts)
        self._fill_seats()

    def stop(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            if attempt in self._waiting:
                self._waiting.remove(attempt)
                self._end(attempt, never_begun(attempt))
            elif attempt in self._running and attempt.handle is not None:
                handle, attempt.handle = attempt.handle, None  # once: a second cancel would cut the grace short
                handle.cancel()
                if not attempt.started_at:  # before its first step: it takes none, and would never come to its end
                    self._end(attempt, never_begun(attempt))

    def close(self) -> None:
        """The guard is closed by who opened it; nothing else is held."""

    async def left(self) -> None:
        """Wait until the output of what has ended is kept, as far as that takes no longer than it may; and leave no
        empty places behind."""
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=_KEEP_PATIENCE)
        await self._neighbours.files.do(self._spares.clear)

    def _fill_seats(self) -> None:
        while self._waiting and len(self._running) < self._seats:
            attempt = self._waiting.popleft()
            self._running.add(attempt)
            attempt.handle = asyncio.get_running_loop().create_task(self._perform(attempt))

    async def _perform(self, attempt: Attempt) -> None:
        """The attempt itself: whatever happens in here becomes one outcome."""
        attempt.started_at = self._clock.now()
        place = RunFolder(self.spool, attempt.lease, self._spares)
        self._places[attempt] = place.run.name
        performing = ProgramAttempt(attempt, place, self._neighbours, self._settings, self._clock)
        if self._tell_started is not None:
            self._tell_started([attempt])
        fault_points.point("attempt.before_call")
        timer = None
        if attempt.timeout:  # the guard ends programs by itself; this is for what is between them
            timer = asyncio.get_running_loop().call_later(attempt.timeout / SECOND, self._time_is_up, attempt)
        try:
            outcome = await performing.perform()
        except asyncio.CancelledError as error:
            outcome = timed_out(attempt.timeout) if attempt.timed_out else attempt.stop_as or failed(error)
        except TimeIsUp:
            outcome = timed_out(attempt.timeout)
        except Over as over:
            outcome = attempt.stop_as or over.outcome
        except StoreUnavailable as error:  # what it needs before its first program could not be had: nothing has begun
            outcome = attempt.stop_as or Outcome(OutcomeKind.RELEASED, str(error))
        except LeaseLost as error:
            outcome = attempt.stop_as or Outcome(OutcomeKind.LOST, str(error))
        except Exception as error:  # noqa: BLE001 - whatever goes wrong on the way is the outcome of this attempt
            outcome = failed(error)
        finally:
            if timer is not None:
                timer.cancel()
        fault_points.point("attempt.after_call")
        outcome = without_secrets(outcome, performing.forms)
        outcome = await self._clear_up(attempt, performing, outcome)
        attempt.handle = None
        if performing.has_left:
            self._places.pop(attempt, None)
        else:
            await self._leave_in_time(attempt, performing, outcome)
        self._end(attempt, outcome)

    async def _leave_in_time(self, attempt: Attempt, performing: ProgramAttempt, outcome: Outcome) -> None:
        """Leave, and wait for it; what takes too long goes on behind the end."""
        leaving = asyncio.get_running_loop().create_task(self._leave(attempt, performing, outcome))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
        if outcome.kind is not OutcomeKind.LOST:  # else somebody waits for the lease
            await asyncio.wait({leaving}, timeout=_KEEP_PATIENCE)

    async def _clear_up(self, attempt: Attempt, performing: ProgramAttempt, outcome: Outcome) -> Outcome:
        """What always runs, after a time-out or a cancel; what the attempt ends as. Whose lease is lost, or whose node
        stops, does nothing more, and who is stopped meanwhile ends at once."""
        lost = attempt.stop_as is not None and attempt.stop_as.kind is OutcomeKind.LOST
        if outcome.kind not in (OutcomeKind.TIMED_OUT, OutcomeKind.CANCELLED) or lost:
            return outcome
        attempt.handle = asyncio.current_task()
        try:
            await performing.clear_up()
        except asyncio.CancelledError:
            return attempt.stop_as or outcome
        except Exception as error:  # noqa: BLE001 - whatever goes wrong here, the attempt has ended before
            performing.say(f"what always runs could not be run: {error}")
        return outcome

    def _time_is_up(self, attempt: Attempt) -> None:
        if attempt.handle is not None:
            attempt.timed_out = True
            handle, attempt.handle = attempt.handle, None
            handle.cancel()

    async def _leave(self, attempt: Attempt, performing: ProgramAttempt, outcome: Outcome) -> None:
        """Have kept what the attempt leaves behind; a workspace that nobody needs any more goes."""
        place, useless = performing.place, outcome.kind is OutcomeKind.SUCCEEDED
        try:
            try:
                await self._hand_in(performing, attempt.lease)
            except BaseException:  # also when cancelled: the job's user keeps no workspace; raised again
                await asyncio.to_thread(place.give_back)
                raise
            await asyncio.to_thread(place.discard if useless else place.give_back)
        except Exception as error:  # noqa: BLE001 - what cannot be kept never fails a job; it stays in the spool
            performing.say(f"its output could not be kept, and stays in the spool: {error}")
        finally:
            self._places.pop(attempt, None)

    async def _hand_in(self, performing: ProgramAttempt, lease: Lease) -> None:
        """Remarks on artifacts come first: the record of the attempt ends when it is handed in."""
        keeper, task = self._neighbours.keeper, lease.record.job.task
        if keeper is None:
            return
        wanted = task.artifacts if isinstance(task, Steps) else ()
        artifacts, left_out = await asyncio.to_thread(performing.place.artifacts, wanted)
        for remark in left_out[:_MOST_REMARKS]:
            performing.say(remark)
        await asyncio.to_thread(keeper.hand_in, lease, _named(artifacts, performing.hidden))

    def _end(self, attempt: Attempt, outcome: Outcome) -> None:
        self._running.discard(attempt)
        attempt.outcome = outcome
        attempt.ended_at = self._clock.now()
        self._tell_ended([attempt])
        self._fill_seats()


def _named(artifacts: Mapping[str, Path], hidden: Callable[[str], str]) -> list[tuple[str, Path]]:
    """Artifacts by names without secrets, each name once.

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


_EVERY: Micros = 600 * SECOND


# ── old workspaces ────────────────────────────────────────────────────────────────────────────────────────────


class SpoolSweep(Service):
    """Removes what nobody has used for `keep_workspaces`. Does nothing on a node that runs no programs."""

    name = "sweeping"

    def __init__(self, settings: Settings, clock: Clock) -> None:
        super().__init__()
        self._settings = settings
        self._clock = clock
        self._runner: ProgramRunner | None = None

    def open(self, runner: ProgramRunner) -> None:
        """From here on this node runs programs."""
        self._runner = runner
        self.wake()  # the first program's job may be stored long after the start

    async def tick(self, now: Micros) -> Micros | None:
        """One sweep."""
        del now  # files bear the time of this machine, not of the store
        if self._runner is None:
            return None
        await asyncio.to_thread(
            sweep,
            self._runner.spool,
            now=self._clock.now(),
            keep=self._settings.keep_workspaces,
            in_use=self._runner.places(),
        )
        return _EVERY
