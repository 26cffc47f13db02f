"""Runs one attempt at a command or at steps: prepares the workspace, checks out the source, runs each step's program.

    fill in the task ──▶ workspace, source ──▶ step 1 ──▶ … ──▶ step n ──▶ outcome
                                                 └──▶ each step that ends is a checkpoint

The decisions are in `rules/steps.py`, the files in `workspace.py`, the processes in the guard.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from onthedot.clock import SECOND, Clock, Micros
from onthedot.model.addresses import AddressRefused, Allowed
from onthedot.model.duration import micros
from onthedot.model.errors import ArgumentsError, LeaseLost
from onthedot.model.job import Guarantee
from onthedot.model.task import Command, Level, Source, Step, Steps
from onthedot.model.verdict import Outcome, OutcomeKind
from onthedot.output.records import Mark, Record, append
from onthedot.output.redact import forms_of, redacted
from onthedot.rules import steps as rules
from onthedot.rules.steps import Failed, Progress
from onthedot.runners.attempt import Attempt
from onthedot.runners.context import Context, LiveLines
from onthedot.runners.guard.protocol import Program, ProgramEnd
from onthedot.runners.outcomes import succeeded, type_names
from onthedot.runners.program.services import ProgramServices
from onthedot.runners.program.source import checkout, find_way, git_environment, git_level, ssh_files
from onthedot.runners.program.workspace import RunFolder, environment, folder_name
from onthedot.runners.task_template import Filled
from onthedot.settings import Settings

_LOOK_EVERY = 1.0  # seconds between two reads of a program's checkpoint
_LAST_WORDS = 1.0  # seconds for the last read of the checkpoint when the attempt is stopped
_LAST_GRACE: Micros = 1 * SECOND  # the grace of steps that always run, after their time-out
_TOUCH_EVERY = 60  # reads between two updates of the workspace's time
_TRY_EVERY = 0.5  # seconds between two tries while no user id is free
_MOST_TRIES = 10
GIT_TIMEOUT: Micros = 600 * SECOND


class AttemptOver(Exception):
    """The attempt ended with this outcome before all its steps were done."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error)
        self.outcome = outcome


class AttemptTimedOut(Exception):
    """The guard ended a program because the attempt's time-out was over."""


class Work(NamedTuple):
    """The filled task of an attempt, with its parameters and secrets. Known before the first step."""

    task: Command | Steps = Command()
    steps: Sequence[Step] = ()
    secrets: tuple[str, ...] = ()
    forms: tuple[bytes, ...] = ()  # every form of the secrets; they must not be kept or shown

    @classmethod
    def of(cls, filled: Filled) -> Work:
        """Return the work of a filled task. This computes the forms of its secrets once."""
        task, secrets = filled
        if not isinstance(task, Command | Steps):
            raise AssertionError(f"a task for another runner: {task!r}")
        return cls(task, rules.steps_of(task), secrets, forms_of(secrets))

    @property
    def source(self) -> Source | None:
        """The source to check out before the first step."""
        return self.task.source if isinstance(self.task, Steps) else None

    @property
    def artifacts(self) -> Sequence[str]:
        """Patterns of the files that are kept after the last step."""
        return self.task.artifacts if isinstance(self.task, Steps) else ()

    @property
    def env(self) -> Mapping[str, str]:
        """The environment of all steps."""
        return self.task.env if isinstance(self.task, Steps) else {}

    @property
    def stdin(self) -> bytes:
        """The standard input of a command."""
        return self.task.stdin.encode() if isinstance(self.task, Command) else b""


@dataclass(slots=True)
class _State:
    """The state of an attempt that changes while it runs."""

    deadline: Micros | None  # by the steady clock; None: the attempt has no time-out
    grace: Micros  # of a program, from SIGTERM to SIGKILL
    log: Path  # the record of the attempt
    progress: Progress = field(default_factory=Progress)  # of the run before the current step
    begun: int = 0  # how many steps have begun or are done
    has_run: bool = False  # whether any program of the attempt has run
    prepared: Path | None = None  # the directory of the next step, once it is prepared
    has_left: bool = False


class ProgramAttempt:
    """Runs one attempt. Call `perform` once, on the engine's loop."""

    def __init__(
        self, attempt: Attempt, folder: RunFolder, services: ProgramServices, settings: Settings, clock: Clock
    ) -> None:
        self.folder = folder
        self._lease = attempt.lease
        self._job = attempt.lease.record.job
        self._services = services
        self._settings = settings
        self._clock = clock
        self._context = attempt.context = Context(self._lease, attempt.reporter, None, attempt.started_at)
        self._work = Work()  # empty until the task is filled in
        self._state = _State(
            deadline=clock.steady() + attempt.timeout if attempt.timeout else None,
            grace=settings.kill_after,
            log=folder.log,
        )

    @property
    def forms(self) -> Sequence[bytes]:
        """Return every form of the attempt's secrets. They must not be kept or shown."""
        return self._work.forms

    @property
    def has_left(self) -> bool:
        """Return whether the attempt's folder is removed, and its record is handed in."""
        return self._state.has_left

    async def perform(self) -> Outcome:
        """Run the steps that are not done. Return the outcome of the attempt."""
        self._work = Work.of(await self._services.fill(self._lease))
        steps = self._work.steps
        progress = rules.progress_of(self._context.last_checkpoint, steps)
        if not progress.done and not progress.text:
            progress = await self._earlier() or progress
        failed = await self._prepare(progress)
        if failed is not None:
            return Outcome(OutcomeKind.FAILED, failed.error, failed.types)
        while (at := rules.next_step(steps, progress)) is not None:
            self._state.begun, self._state.progress = at + 1, progress
            progress = await self._step(at, progress)
            if len(steps) > 1:
                self._context.progress(len(progress.done), of=len(steps))
        return await self._outcome(progress)

    async def clear_up(self) -> None:
        """Run the steps that always run, after a time-out or a cancel. All of them share the grace. Their results
        change nothing and are no checkpoints. The next attempt begins where this one stopped."""
        left = rules.to_clear_up(self._work.steps, self._state.begun)
        if not left:
            return
        self._state.deadline = self._clock.steady() + self._settings.kill_after
        self._state.grace = min(self._state.grace, _LAST_GRACE)
        self.say(f"stopped; the steps that always run have {self._settings.kill_after / SECOND:g} s")
        with suppress(AttemptOver, AttemptTimedOut):
            for at in left:
                step = self._work.steps[at]
                self.say(f"step {at + 1} of {len(self._work.steps)}: {step.name}", step.name)
                failed, _ = await self._try(at, step, self._state.progress, saves=False)
                if failed is not None:
                    self.say(failed.error)
            return
        self.say("the steps that always run were not done in time")

    async def _outcome(self, progress: Progress) -> Outcome:
        if progress.failed is not None:
            await self._save(rules.before_failure(progress))
            return Outcome(OutcomeKind.FAILED, progress.failed.error, progress.failed.types)
        handed = progress.outputs if isinstance(self._work.task, Steps) else progress.outputs.get("")
        return succeeded(handed or None, self._settings.result_bytes)

    # ── before the first step ────────────────────────────────────────────────────────────────────────────────

    async def _earlier(self) -> Progress | None:
        """Return the progress of an earlier run if this run continues it, and take over its workspace."""
        origin = rules.rerun_of(self._lease)
        if origin is None:
            return None
        run_id, at = origin
        earlier = await self._services.earlier_run(run_id, self._lease.record.id)
        if earlier is None:
            return None
        saved, created_at = earlier
        progress = rules.from_step(rules.progress_of(saved, self._work.steps), at)
        self.say(f"continues run {run_id}")
        await asyncio.to_thread(self.folder.adopt, folder_name(run_id, created_at))
        return progress

    async def _prepare(self, progress: Progress) -> Failed | None:
        """Prepare the workspace for the next step. Returns how that failed, or None."""
        source = self._work.source
        found = await self._services.files.do(lambda: self._open(progress, complete=source is None))
        if progress.done:
            again = ", its source is checked out again" if source else ""
            anew = "" if found else f"; its workspace is not on this machine{again}"
            at = rules.next_step(self._work.steps, progress)
            steps = self._work.steps
            where = "the end" if at is None else f"step {at + 1} of {len(steps)}, {steps[at].name!r}"
            self.say(f"resumed at {where}{anew}")
        return None if found or source is None else await self._check_out(source)

    async def _check_out(self, source: Source) -> Failed | None:
        """Fetch the source into an empty workspace. Returns how that failed, or None."""
        try:
            way = await find_way(source, Allowed.of(self._settings.http_allow))
        except AddressRefused as error:
            return Failed(0, f"step 'source': refused: {error}", ("onthedot.Refused",))
        except ConnectionError as error:
            return Failed(0, f"step 'source': {error}", ("onthedot.SourceTrouble", *type_names(ConnectionError)))
        await asyncio.to_thread(self.folder.empty)
        level = git_level(self._job.isolation, self._services.guard.levels)
        folder = await asyncio.to_thread(lambda: self.folder.write_private(ssh_files(way, source.key)))
        env = git_environment(self._job.isolation, way, key=source.key, folder=str(folder))
        try:
            for argv in checkout(source, way):
                end = await self._run(argv, "source", env, self.folder.workspace, GIT_TIMEOUT, git_at=level)
                failed = self._failure(end, 0, "source")
                if failed is not None:
                    return failed
        finally:
            await asyncio.to_thread(self.folder.write_private, {})
        await asyncio.to_thread(self.folder.ready)
        return None

    def _open(self, progress: Progress, *, complete: bool) -> bool:
        """Prepare all files in one call, because each switch to a thread costs as much as the work there. Return
        whether the workspace existed already."""
        found = self.folder.open(complete=complete)
        if self._services.keeper is not None:
            self._state.log = self._services.keeper.log_of(self._lease)
        at = rules.next_step(self._work.steps, progress)
        if complete and at is not None:
            with suppress(NotADirectoryError):  # reported when the step begins
                self._state.prepared = self._begin(self._work.steps[at], progress)
        return found

    # ── one step ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _step(self, at: int, progress: Progress) -> Progress:
        """Run a step, with its retries, and save how far the run is. Returns that progress."""
        step, tried = self._work.steps[at], 0
        if step.name:
            self.say(f"step {at + 1} of {len(self._work.steps)}: {step.name}", step.name)
        while True:
            tried += 1
            failed, progress = await self._try(at, step, progress)
            wait = rules.attempts_left(step, tried)
            if failed is None or wait is None or "onthedot.Refused" in failed.types:
                break
            self.say(f"{failed.error}; tried again ({tried + 1} of {step.attempts}) in {wait.total_seconds():g} s")
            await asyncio.sleep(wait.total_seconds())
        if failed is not None and step.name:
            self.say(failed.error)
        is_last = at + 1 == len(self._work.steps)
        outputs = await self._outputs(leave=is_last and failed is None and progress.failed is None)
        ended = rules.ended(self._work.steps, progress, at, failed=failed, outputs=outputs)
        if is_last and ended.failed is None:
            return ended  # the attempt's verdict contains the same progress
        try:
            await self._save(ended)
        except ArgumentsError as error:
            told = Failed(at, f"step {step.name!r}: its outputs are too large: {error}")
            ended = rules.ended(self._work.steps, progress, at, failed=failed or told)
            await self._save(ended)
        return ended

    async def _try(
        self, at: int, step: Step, progress: Progress, *, saves: bool = True
    ) -> tuple[Failed | None, Progress]:
        """Run a step once. Returns how it failed, or None, and the progress with what the step has saved."""
        directory, self._state.prepared = self._state.prepared, None
        try:
            if directory is None:
                directory = await self._services.files.do(lambda: self._begin(step, progress))
        except NotADirectoryError as error:
            return self._failure(ProgramEnd("refused", error=str(error)), at, step.name), progress
        argv = step.argv or ("/bin/sh", "-ec", step.script)
        env = {**rules.handed_on(progress), **self._work.env, **step.env}
        timeout = micros(step.timeout) if step.timeout is not None else 0
        saved = _Saved(progress)
        end = await self._run(argv, step.name, env, directory, timeout, saved=saved if saves else None)
        return self._failure(end, at, step.name), saved.progress

    def _failure(self, end: ProgramEnd, at: int, name: str) -> Failed | None:
        failed = failure_of(end, step=at, name=name)
        return None if failed is None else replace(failed, error=self.hidden(failed.error))

    async def _outputs(self, *, leave: bool) -> dict[str, str]:
        """Return the outputs of the step for later steps. `leave`: it was the last step and succeeded. Then the attempt
        removes its folder now, if it has left no files."""
        if leave and not self._work.artifacts:
            self._state.has_left = await self._services.files.do(self._vanish)
            if self._state.has_left:
                return {}
        text = await self._services.files.do(self.folder.read_outputs)
        return rules.read_outputs(self._without_secrets(text, "what the step hands on"))

    def _vanish(self) -> bool:
        if not self.folder.vanish():
            return False
        keeper = self._services.keeper
        if keeper is not None:
            try:
                keeper.hand_in(self._lease)
            except OSError:  # `_leave` reports it
                return False
        return True

    def _begin(self, step: Step, progress: Progress) -> Path:
        """Write the files that a step needs. Returns the directory in which it begins."""
        if not self.folder.is_new:
            self.folder.clear_outputs()
        if not self.folder.is_new or progress.text:
            self.folder.write_checkpoint(progress.text)
        self.folder.is_new = False
        return self.folder.directory(self._directory(step))

    def _directory(self, step: Step) -> str:
        """Return the directory of a step: its own, or the workspace. For programs without source, artifacts and
        isolation the operator may name another one (`programs_in`)."""
        brings = self._work.source is not None or bool(self._work.artifacts)
        if step.directory or brings or self._job.isolation != "none":
            return step.directory
        return self._settings.programs_in

    # ── one program ──────────────────────────────────────────────────────────────────────────────────────────

    async def _run(
        self,
        argv: Sequence[str],
        label: str,
        env: Mapping[str, str],
        directory: os.PathLike[str],
        timeout: Micros,
        *,
        git_at: Level | None = None,
        saved: _Saved | None = None,
    ) -> ProgramEnd:
        """Run one program to its end. `git_at`: it is git, at this level and with the network. `saved`: the progress of
        the run, if the program may save more."""
        left = None if self._state.deadline is None else max(1, self._state.deadline - self._clock.steady())
        mine = left is not None and (not timeout or left <= timeout)
        program = Program(
            argv=tuple(argv),
            env={**environment(self.folder, self._lease, path=os.environ.get("PATH", os.defpath)), **env},
            directory=os.fspath(directory),
            workspace=str(self.folder.workspace),
            log=str(self._state.log),
            label=label,
            stdin=self._work.stdin,
            level=self._job.isolation if git_at is None else git_at,
            network=git_at is not None,
            bounds=self._job.bounds,
            timeout=left or 0 if mine else timeout,
            grace=self._state.grace,
            secrets=self._work.secrets,
        )
        live = LiveLines(self._context, label)
        try:
            end = await self._when_there_is_room(program, live, saved)
        finally:
            live.flush()
        if end.kind == "stopped":
            raise AttemptOver(stopped_of(end))
        if end.kind == "timed_out" and mine:
            raise AttemptTimedOut
        if end.stragglers:
            self.say(f"{end.stragglers} processes that it left running were killed")
        return end

    async def _when_there_is_room(self, program: Program, live: LiveLines, saved: _Saved | None) -> ProgramEnd:
        """Run a program, and wait while the machine has no free user id. Before the attempt's first program it waits
        only a short time. Then the run is released, and another worker may take it."""
        tried = 0
        while True:
            end = await self._watched(program, live, saved)
            if end.kind != "no_room":
                self._state.has_run = True
                return end
            tried += 1
            at_most_once = self._job.guarantee is Guarantee.AT_MOST_ONCE  # a released run would be lost
            if tried >= _MOST_TRIES and not self._state.has_run and not at_most_once:
                raise AttemptOver(Outcome(OutcomeKind.RELEASED, end.error))
            if self._state.deadline is not None and self._clock.steady() >= self._state.deadline:
                raise AttemptTimedOut
            await asyncio.sleep(_TRY_EVERY)

    async def _watched(self, program: Program, live: LiveLines, saved: _Saved | None) -> ProgramEnd:
        """Run a program, and save what it writes to `$OTD_CHECKPOINT` meanwhile. A lost lease ends it."""
        guard = self._services.guard
        if saved is None:
            return await guard.run(program, live.say)
        running = asyncio.ensure_future(guard.run(program, live.say))
        try:
            await self._watch(running, saved)
            end = await running
        except asyncio.CancelledError:
            with suppress(LeaseLost, TimeoutError, ArgumentsError, OSError):  # its last checkpoint when it was stopped
                await asyncio.wait_for(self._look(saved), _LAST_WORDS)
            raise
        if end.code != 0:
            await self._look(saved)  # its next try continues from there
        return end

    async def _watch(self, running: asyncio.Future[ProgramEnd], saved: _Saved) -> None:
        """Read the checkpoint until the program has ended. If this is cancelled or fails, it stops the program and
        waits for its end."""
        looks = 0
        try:
            while not (await asyncio.wait({running}, timeout=_LOOK_EVERY))[0]:
                looks += 1
                if looks % _TOUCH_EVERY == 0:
                    await asyncio.to_thread(self.folder.touch)
                await self._look(saved)
        finally:
            if not running.done():
                running.cancel()
            while not running.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({running})

    async def _look(self, saved: _Saved) -> None:
        raw = await asyncio.to_thread(self.folder.read_checkpoint, rules.TEXT_LIMIT)
        if raw is None or raw in (saved.raw, saved.progress.text):
            return
        text, saved.raw = self._without_secrets(raw, "what the program has saved"), raw
        progress = rules.with_text(saved.progress, text)
        with suppress(ArgumentsError):  # too large in JSON: the earlier checkpoint stays
            await self._save(progress)
        saved.progress = progress

    def hidden(self, text: str) -> str:
        """Return a text without secrets."""
        return redacted(text, self._work.forms)

    def _without_secrets(self, text: str, what: str) -> str:
        """Return a text without secrets. If it had a secret, add a remark to the log."""
        shown = self.hidden(text)
        if shown != text:
            self.say(f"a secret was taken out of {what}: '***' stands there; use a file of the workspace instead")
        return shown

    async def _save(self, progress: Progress) -> None:
        await self._context.checkpoint(progress.to_json())

    def say(self, text: str, label: str = "") -> None:
        """Add our own remark, about this step, to the run's log and to the attempt's record."""
        mark, line = Mark(self._clock.now(), "otd", label), f"onthedot: {self.hidden(text)}"
        self._context._log_as(mark, line)
        with suppress(OSError):  # an unwritable record must not fail the job
            append(self._state.log, Record(*mark, f"{line}\n"))


class _Saved:
    """The progress of the run, with the checkpoint that its current program has saved."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.raw = ""  # the text that the program has written


# ── what the end of a program means. Pure ───────────────────────────────────────────────────────────────────────────


def failure_of(end: ProgramEnd, *, step: int, name: str) -> Failed | None:
    """Return the failure of a step whose program ended like this; None if it succeeded.

    `retry.on` can name its types. The most exact one comes first.

    >>> failed = failure_of(ProgramEnd("exited", code=3), step=1, name="test")
    >>> failed.error, failed.types
    ("step 'test': exit code 3", ('onthedot.ExitCode.3', 'onthedot.ExitCode'))
    """
    if end.kind == "exited" and end.code == 0:
        return None
    where = f"step {name!r}: " if name else ""
    return Failed(step, where + end.in_words(), _types(end))


def _types(end: ProgramEnd) -> tuple[str, ...]:
    match end.kind:
        case "exited":
            return f"onthedot.ExitCode.{end.code}", "onthedot.ExitCode"
        case "signalled":
            return f"onthedot.Signal.{_name(end.signal or 0)}", "onthedot.Signal"
        case "timed_out":
            return "onthedot.StepTimedOut", "builtins.TimeoutError"
        case "out_of_memory":
            return "onthedot.OutOfMemory", "builtins.MemoryError"
        case "refused" | "no_room":
            return ("onthedot.Refused",)
        case "stopped":
            return ("onthedot.Stopped",)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def stopped_of(end: ProgramEnd) -> Outcome:
    """Return the outcome of an attempt whose program was stopped, although its runner did not ask for that."""
    return Outcome(OutcomeKind.LOST, f"its program was stopped: {end.error or 'its guard has ended'}")
