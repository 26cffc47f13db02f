"""Finds and kills the process trees of a guard's programs, and reports which programs are gone."""

from __future__ import annotations

import signal
from collections.abc import Mapping

from onthedot.clock import MILLISECOND, NEVER, SECOND, Micros
from onthedot.runners.guard import process_tree
from onthedot.runners.guard.process_tree import Process
from onthedot.runners.guard.running_program import RunningProgram

_AGAIN: Micros = 5 * MILLISECOND  # until the next search for a killed tree; doubles each time
_AGAIN_MOST: Micros = SECOND
_ONCE_MORE: Micros = 200 * MILLISECOND  # until a last search, because one search can miss a process


class Sweeper:
    """Knows the program of each process. Call `sweep` at `again_at`, and whenever a child has died."""

    def __init__(self, running: Mapping[int, RunningProgram], token: str) -> None:
        self._running = running
        self._token = token
        self._owners: dict[int, int | None] = {}  # the program's number of each orphan; it never changes
        self._pause = _AGAIN
        self.again_at: Micros = NEVER

    def forget(self, pid: int) -> None:
        """Forget a child that has been reaped, because the kernel may reuse its id."""
        self._owners.pop(pid, None)

    def ask_to_end(self, running: RunningProgram) -> None:
        """Send SIGTERM to the whole tree, and wake stopped processes."""
        for process in self._tree(running):
            if running.program.level == "sandbox" and process.pid == running.pid:
                continue  # bubblewrap itself: if it ended, the whole tree would be killed at once
            process_tree.send_signal(process, signal.SIGTERM)
            process_tree.send_signal(process, signal.SIGCONT)

    def kill(self, running: RunningProgram) -> None:
        """Kill the whole tree now."""
        process_tree.kill_found(lambda: self._tree(running))
        if running.group is not None:
            running.group.kill()

    def sweep(self, now: Micros) -> list[RunningProgram]:
        """Kill processes that belong to no program, and processes that ended programs have left. Return the programs
        that have no processes any more."""
        orphans = self._orphans()
        left: dict[int | None, list[int]] = {}
        for pid, owner in orphans.items():
            running = self._running.get(owner) if owner is not None else None
            if running is None:
                left.setdefault(None, []).append(pid)
            elif running.status is not None:
                left.setdefault(owner, []).append(pid)
        ended = [running for running in self._running.values() if running.status is not None]
        gone = [running for running in ended if running.number not in left]
        if left:
            self._kill_left(left)
            self.again_at = now + self._pause
            self._pause = min(2 * self._pause, _AGAIN_MOST)
        else:
            self._pause = _AGAIN
            if ended:
                self.again_at = now + _ONCE_MORE
            elif self.again_at <= now:
                self.again_at = NEVER
        return gone

    def kill_everybody(self) -> None:
        """Kill all processes below the guard, because the guard ends."""
        process_tree.kill_below(process_tree.own_children())

    def _kill_left(self, left: dict[int | None, list[int]]) -> None:
        for owner, orphans in left.items():
            if owner is not None:
                running = self._running[owner]
                doomed = process_tree.with_descendants(orphans, process_tree.all_processes())
                inner = running.program.level == "sandbox"
                running.stragglers |= {
                    p.pid for p in doomed if not (inner and process_tree.is_first_of_namespace(p.pid))
                }
                self.kill(running)
            else:
                process_tree.kill_below(orphans)

    def _tree(self, running: RunningProgram) -> list[Process]:
        roots = [pid for pid, owner in self._orphans().items() if owner == running.number]
        if running.status is None:
            roots.append(running.pid)
        if running.group is not None:
            roots += running.group.members()
        return process_tree.with_descendants(roots, process_tree.all_processes())

    def _orphans(self) -> dict[int, int | None]:
        """Return the living children of the guard that are no main processes, each with the number of its program."""
        mains = {running.pid for running in self._running.values() if running.status is None}
        found: dict[int, int | None] = {}
        for pid in process_tree.own_children():
            if pid in mains:
                continue
            process = process_tree.read_process(pid)
            if process is None or process.is_zombie:
                continue
            if pid not in self._owners:
                self._owners[pid] = self._owner(process)
            found[pid] = self._owners[pid]
        return found

    def _owner(self, process: Process) -> int | None:
        user = process_tree.user_of(process.pid)
        for running in self._running.values():
            if running.group is not None and process.pid in running.group.members():
                return running.number
            if running.user is not None and running.user.uid == user:
                return running.number
            if process.session == running.pid:
                return running.number
        token, _, number = process_tree.mark_of(process.pid).rpartition(".")
        if token == self._token and number.isdigit():
            return int(number)
        return next(iter(self._running)) if len(self._running) == 1 else None
