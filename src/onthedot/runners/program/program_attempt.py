"""One attempt at a command or at steps: workspace, source, one program after the other, and what they leave behind.

The decisions are in `rules/steps.py` and `program_ends.py`, the files in `workspace.py`, the processes in the guard.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from onthedot.clock import SECOND, Clock, Micros
from onthedot.model.addresses import AddressRefused, Allowed
from onthedot.model.duration import micros
from onthedot.model.errors import ArgumentsError, LeaseLost
from onthedot.model.job import Guarantee
from onthedot.model.task import Command, Level, Source, Step, Steps
from onthedot.model.verdict import Outcome, OutcomeKind
from onthedot.output.line_marks import Mark
from onthedot.output.records import Record, append
from onthedot.output.redact import forms_of, redacted
from onthedot.rules import steps as policy
from onthedot.rules.steps import Failed, Progress
from onthedot.runners.attempt import Attempt
from onthedot.runners.context import Context, LiveLines
from onthedot.runners.outcomes import succeeded, type_names
from onthedot.runners.program.program_ends import failure_of, stopped_of
from onthedot.runners.program.program_services import ProgramServices
from onthedot.runners.program.protocol import Program, ProgramEnd
from onthedot.runners.program.source import checkout, find_way, git_environment, git_level, ssh_files
from onthedot.runners.program.workspace import RunFolder, environment, folder_name
from onthedot.settings import Settings

_LOOK_EVERY = 1.0  # seconds between two looks at what a program has saved
_LAST_WORDS = 1.0  # seconds for saving it once more when the attempt is stopped
_LAST_GRACE: Micros = 1 * SECOND  # of what runs always, when its own time is over, too
_TOUCH_EVERY = 60  # looks between two signs that the workspace is in use
_TRY_EVERY = 0.5  # seconds, while no user id is free
_MOST_TRIES = 10
GIT_TIMEOUT: Micros = 600 * SECOND


class Over(Exception):
    """The attempt has ended, and not by its steps: with this outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error)
        self.outcome = outcome


class TimeIsUp(Exception):
    """The guard has ended a program because the attempt's own time was over."""


class ProgramAttempt:
    """What happens in one attempt. `perform` is called once, on the engine's loop."""

    def __init__(
        self, attempt: Attempt, place: RunFolder, neighbours: ProgramServices, settings: Settings, clock: Clock
    ) -> None:
        self.place = place
        self.has_left = False  # nothing of it is here any more, and its record is handed in
        self._attempt = attempt
        self._lease = attempt.lease
        self._job = attempt.lease.record.job
        self._neighbours = neighbours
        self._settings = settings
        self._clock = clock
        self._deadline = clock.steady() + attempt.timeout if attempt.timeout else None
        self._context = attempt.context = Context(self._lease, attempt.desk, None, attempt.started_at)
        self._log = place.log
        self._task: Command | Steps = Command()
        self._steps: Sequence[Step] = ()
        self._secrets: tuple[str, ...] = ()
        self.forms: tuple[bytes, ...] = ()  # in which they may not be kept or shown
        self._grace = settings.kill_after
        self._begun = 0  # steps that were begun, or are done
        self._progress = Progress()
        self._has_run = False  # any program of it
        self._prepared: Path | None = None  # where the first step begins, if that is prepared

    async def perform(self) -> Outcome:
        """From the first step that is not done to the last one; what came of it."""
        task, self._secrets = await self._neighbours.fill(self._lease)
        self.forms = forms_of(self._secrets)
        if not isinstance(task, Command | Steps):
            raise AssertionError(f"a task for another runner: {task!r}")
        self._task = task
        steps = self._steps = policy.steps_of(self._task)
        progress = policy.progress_of(self._context.last_checkpoint, steps)
        if not progress.done and not progress.text:
            progress = await self._earlier() or progress
        failed = await self._prepare(progress)
        if failed is not None:
            return Outcome(OutcomeKind.FAILED, failed.error, failed.types)
        while (at := policy.next_step(steps, progress)) is not None:
            self._begun, self._progress = at + 1, progress
            progress = await self._step(at, progress)
            if len(steps) > 1:
                self._context.progress(len(progress.done), of=len(steps))
        return await self._outcome(progress)

    async def clear_up(self) -> None:
        """The attempt was timed out or cancelled: run the steps that run always, all of them within the grace. How they
        end changes nothing, and is no checkpoint: the next attempt begins where this one was cut off."""
        left = policy.to_clear_up(self._steps, self._begun)
        if not left:
            return
        self._deadline = self._clock.steady() + self._settings.kill_after
        self._grace = min(self._grace, _LAST_GRACE)
        self.say(f"it is ended; what always runs has {self._settings.kill_after / SECOND:g} s")
        with suppress(Over, TimeIsUp):
            for at in left:
                step = self._steps[at]
                self.say(f"step {at + 1} of {len(self._steps)}: {step.name}", step.name)
                failed, _ = await self._try(at, step, self._progress, saves=False)
                if failed is not None:
                    self.say(failed.error)
            return
        self.say("what always runs was not done in time")

    async def _outcome(self, progress: Progress) -> Outcome:
        if progress.failed is not None:
            await self._save(policy.before_failure(progress))
            return Outcome(OutcomeKind.FAILED, progress.failed.error, progress.failed.types)
        handed = progress.outputs if isinstance(self._task, Steps) else progress.outputs.get("")
        return succeeded(handed or None, self._settings.result_bytes)

    # ── before the first step ────────────────────────────────────────────────────────────────────────────────

    async def _earlier(self) -> Progress | None:
        """Where an earlier run has left off, if this one is to go on there; its workspace comes with it."""
        origin = policy.rerun_of(self._lease)
        if origin is None:
            return None
        run_id, at = origin
        earlier = await self._neighbours.earlier_run(run_id, self._lease.record.id)
        if earlier is None:
            return None
        saved, created_at = earlier
        progress = policy.from_step(policy.progress_of(saved, self._steps), at)
        self.say(f"goes on from run {run_id}")
        await asyncio.to_thread(self.place.adopt, folder_name(run_id, created_at))
        return progress

    async def _prepare(self, progress: Progress) -> Failed | None:
        """The workspace, as far as it must be there before the next step; how that failed, or None."""
        source = self._task.source if isinstance(self._task, Steps) else None
        found = await self._neighbours.files.do(lambda: self._open(progress, complete=source is None))
        if progress.done:
            again = ", its source comes anew" if source else ""
            anew = "" if found else f"; its workspace is not on this machine{again}"
            at = policy.next_step(self._steps, progress)
            where = "the end" if at is None else f"step {at + 1} of {len(self._steps)}, {self._steps[at].name!r}"
            self.say(f"resumed at {where}{anew}")
        return None if found or source is None else await self._check_out(source)

    async def _check_out(self, source: Source) -> Failed | None:
        """Fetch the source into an empty workspace; how that failed, or None."""
        try:
            way = await find_way(source, Allowed.of(self._settings.http_allow))
        except AddressRefused as error:
            return Failed(0, f"step 'source': refused: {error}", ("onthedot.Refused",))
        except ConnectionError as error:
            return Failed(0, f"step 'source': {error}", ("onthedot.SourceTrouble", *type_names(ConnectionError)))
        await asyncio.to_thread(self.place.empty)
        level = git_level(self._job.isolation, self._neighbours.guard.levels)
        folder = await asyncio.to_thread(lambda: self.place.write_private(ssh_files(way, source.key)))
        env = git_environment(self._job.isolation, way, key=source.key, folder=str(folder))
        try:
            for argv in checkout(source, way):
                end = await self._run(argv, "source", env, self.place.workspace, GIT_TIMEOUT, git_at=level)
                failed = self._failure(end, 0, "source")
                if failed is not None:
                    return failed
        finally:
            await asyncio.to_thread(self.place.write_private, {})
        await asyncio.to_thread(self.place.ready)
        return None

    def _open(self, progress: Progress, *, complete: bool) -> bool:
        """All at once, because each way to a thread and back costs as much as what is done there."""
        found = self.place.open(complete=complete)
        if self._neighbours.keeper is not None:
            self._log = self._neighbours.keeper.log_of(self._lease)
        at = policy.next_step(self._steps, progress)
        if complete and at is not None:
            with suppress(NotADirectoryError):  # told when the step begins
                self._prepared = self._begin(self._steps[at], progress)
        return found

    # ── one step ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _step(self, at: int, progress: Progress) -> Progress:
        """Run a step, as often as it wants; how far the run is then, which is saved."""
        step, tried = self._steps[at], 0
        if step.name:
            self.say(f"step {at + 1} of {len(self._steps)}: {step.name}", step.name)
        while True:
            tried += 1
            failed, progress = await self._try(at, step, progress)
            wait = policy.attempts_left(step, tried)
            if failed is None or wait is None or "onthedot.Refused" in failed.types:
                break
            self.say(f"{failed.error}; tried again ({tried + 1} of {step.attempts}) in {wait.total_seconds():g} s")
            await asyncio.sleep(wait.total_seconds())
        if failed is not None and step.name:
            self.say(failed.error)
        is_last = at + 1 == len(self._steps)
        outputs = await self._outputs(leave=is_last and failed is None and progress.failed is None)
        ended = policy.ended(self._steps, progress, at, failed=failed, outputs=outputs)
        if is_last and ended.failed is None:
            return ended  # its verdict says the same, and more
        try:
            await self._save(ended)
        except ArgumentsError as error:
            told = Failed(at, f"step {step.name!r}: what it hands on is too much to be kept: {error}")
            ended = policy.ended(self._steps, progress, at, failed=failed or told)
            await self._save(ended)
        return ended

    async def _try(
        self, at: int, step: Step, progress: Progress, *, saves: bool = True
    ) -> tuple[Failed | None, Progress]:
        """How it failed, or None; and how far the run is, with what the step has saved."""
        directory, self._prepared = self._prepared, None
        try:
            if directory is None:
                directory = await self._neighbours.files.do(lambda: self._begin(step, progress))
        except NotADirectoryError as error:
            return self._failure(ProgramEnd("refused", error=str(error)), at, step.name), progress
        argv = step.argv or ("/bin/sh", "-ec", step.script)
        env = {**policy.handed_on(progress), **(self._task.env if isinstance(self._task, Steps) else {}), **step.env}
        timeout = micros(step.timeout) if step.timeout is not None else 0
        saved = _Saved(progress)
        end = await self._run(argv, step.name, env, directory, timeout, saved=saved if saves else None)
        return self._failure(end, at, step.name), saved.progress

    def _failure(self, end: ProgramEnd, at: int, name: str) -> Failed | None:
        failed = failure_of(end, step=at, name=name)
        return None if failed is None else replace(failed, error=self.hidden(failed.error))

    async def _outputs(self, *, leave: bool) -> dict[str, str]:
        """What the step hands on. `leave`: it was the last one, and went well; if it has left nothing at all, there is
        nothing to come back for, and the attempt is over here."""
        if leave and (not isinstance(self._task, Steps) or not self._task.artifacts):
            self.has_left = await self._neighbours.files.do(self._vanish)
            if self.has_left:
                return {}
        text = await self._neighbours.files.do(self.place.read_outputs)
        return policy.read_outputs(self._without_secrets(text, "what the step hands on"))

    def _vanish(self) -> bool:
        if not self.place.vanish():
            return False
        keeper = self._neighbours.keeper
        if keeper is not None:
            try:
                keeper.hand_in(self._lease)
            except OSError:  # who leaves says so
                return False
        return True

    def _begin(self, step: Step, progress: Progress) -> Path:
        """What is to be there before a step begins; where it does."""
        if not self.place.is_new:
            self.place.clear_outputs()
        if not self.place.is_new or progress.text:
            self.place.write_checkpoint(progress.text)
        self.place.is_new = False
        return self.place.directory(self._directory(step))

    def _directory(self, step: Step) -> str:
        """Where a step begins that does not say it: in the workspace, unless the operator has another folder for
        programs that bring nothing and leave nothing."""
        task = self._task
        brings = isinstance(task, Steps) and (task.source is not None or bool(task.artifacts))
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
        """Run one program to its end: git, at this level and with the network, or the job's own. `saved` is how far the
        run is, if the program may save more."""
        left = None if self._deadline is None else max(1, self._deadline - self._clock.steady())
        mine = left is not None and (not timeout or left <= timeout)
        task = self._task
        program = Program(
            argv=tuple(argv),
            env={**environment(self.place, self._lease, path=os.environ.get("PATH", os.defpath)), **env},
            directory=os.fspath(directory),
            workspace=str(self.place.workspace),
            log=str(self._log),
            label=label,
            stdin=task.stdin.encode() if isinstance(task, Command) else b"",
            level=self._job.isolation if git_at is None else git_at,
            network=git_at is not None,
            bounds=self._job.bounds,
            timeout=left or 0 if mine else timeout,
            grace=self._grace,
            secrets=self._secrets,
        )
        live = LiveLines(self._context, label)
        try:
            end = await self._when_there_is_room(program, live, saved)
        finally:
            live.flush()
        if end.kind == "stopped":
            raise Over(stopped_of(end))
        if end.kind == "timed_out" and mine:
            raise TimeIsUp
        if end.stragglers:
            self.say(f"{end.stragglers} processes that it had left running were killed")
        return end

    async def _when_there_is_room(self, program: Program, live: LiveLines, saved: _Saved | None) -> ProgramEnd:
        """Run it, and wait for that while the machine has no user id free. Before the first program not for long: then
        the run is given back, and another worker may have it."""
        tried = 0
        while True:
            end = await self._watched(program, live, saved)
            if end.kind != "no_room":
                self._has_run = True
                return end
            tried += 1
            at_most_once = self._job.guarantee is Guarantee.AT_MOST_ONCE  # what is given back is lost then
            if tried >= _MOST_TRIES and not self._has_run and not at_most_once:
                raise Over(Outcome(OutcomeKind.RELEASED, end.error))
            if self._deadline is not None and self._clock.steady() >= self._deadline:
                raise TimeIsUp
            await asyncio.sleep(_TRY_EVERY)

    async def _watched(self, program: Program, live: LiveLines, saved: _Saved | None) -> ProgramEnd:
        """Run it, and save what it writes to `$OTD_CHECKPOINT` meanwhile. A lost lease ends it."""
        guard = self._neighbours.guard
        if saved is None:
            return await guard.run(program, live.say)
        running = asyncio.ensure_future(guard.run(program, live.say))
        try:
            await self._watch(running, saved)
            end = await running
        except asyncio.CancelledError:
            with suppress(LeaseLost, TimeoutError, ArgumentsError, OSError):  # what it said when it was told to end
                await asyncio.wait_for(self._look(saved), _LAST_WORDS)
            raise
        if end.code != 0:
            await self._look(saved)  # its next try goes on from there
        return end

    async def _watch(self, running: asyncio.Future[ProgramEnd], saved: _Saved) -> None:
        """Until the program has ended. Whatever else ends this ends the program, and waits for that."""
        looks = 0
        try:
            while not (await asyncio.wait({running}, timeout=_LOOK_EVERY))[0]:
                looks += 1
                if looks % _TOUCH_EVERY == 0:
                    await asyncio.to_thread(self.place.touch)
                await self._look(saved)
        finally:
            if not running.done():
                running.cancel()
            while not running.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({running})

    async def _look(self, saved: _Saved) -> None:
        raw = await asyncio.to_thread(self.place.read_checkpoint, policy.TEXT_LIMIT)
        if raw is None or raw in (saved.raw, saved.progress.text):
            return
        text, saved.raw = self._without_secrets(raw, "what the program has saved"), raw
        progress = policy.with_text(saved.progress, text)
        with suppress(ArgumentsError):  # too much of it in JSON: what was saved before stays
            await self._save(progress)
        saved.progress = progress

    def hidden(self, text: str) -> str:
        """A text as it may be kept and shown."""
        return redacted(text, self.forms)

    def _without_secrets(self, text: str, what: str) -> str:
        """The same, and a remark if there was a secret in it: whoever reads it next gets something else."""
        shown = self.hidden(text)
        if shown != text:
            self.say(f"a secret was taken out of {what}: '***' stands there; use a file of the workspace instead")
        return shown

    async def _save(self, progress: Progress) -> None:
        await self._context.checkpoint(progress.to_json())

    def say(self, text: str, label: str = "") -> None:
        """A remark of ours, about this step: in the run's log at once, and in its record."""
        mark, line = Mark(self._clock.now(), "otd", label), f"onthedot: {self.hidden(text)}"
        self._context._log_as(mark, line)
        with suppress(OSError):  # what cannot be kept fails no job
            append(self._log, Record(*mark, f"{line}\n"))


class _Saved:
    """How far the run is, with what its program has saved since it began."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.raw = ""  # what the program has written
