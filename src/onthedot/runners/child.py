"""One child process, as its worker sees it: start it, talk to it, relay its words to the store, stop and reap it.

The worker trusts nothing that a child sends. A message of an unknown shape, or one that is too large, ends the child.
The worker's other threads never wait for a child: if it does not take an answer, it is ended, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, Future
from typing import Any

from onthedot.model.errors import LeaseLost, OnTheDotError
from onthedot.model.run import Checkpoint, Lease, Progress
from onthedot.model.verdict import Outcome
from onthedot.runners.attempt import Attempt
from onthedot.runners.child_messages import KILL, TERM, outcome_from_json
from onthedot.runners.frames import BadFrame, frame, receive, send
from onthedot.runners.notes import CHECKPOINT_LIMIT, LOG_LIMIT, Notes
from onthedot.stores.values import Note

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]); "
    "from onthedot.runners.child_main import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)


class ChildGone(Exception):
    """The child has ended, or does not talk any more. The text says how."""


class Child:
    """A warm process that calls one handler after the other.

    It has a session of its own, so that Ctrl-C at the terminal does not reach it. It is started without running any of
    our code between fork and exec. So it is safe in a process with threads.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._closing = threading.Lock()
        self.spent = False  # asked to end, or gone: not to be used again
        self._group = 0
        self._talk, their_talk = socket.socketpair()
        self._rein, their_rein = socket.socketpair()
        self._news = select.poll()
        for end in (self._talk, self._rein):  # the rein only ever says that the keeper is gone
            self._news.register(end, select.POLLIN)
        with their_talk, their_rein:
            fds = (their_talk.fileno(), their_rein.fileno())
            path = json.dumps([entry or os.getcwd() for entry in sys.path])
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter, our own words
                [sys.executable, "-c", _BOOT, str(fds[0]), str(fds[1]), path],
                stdin=subprocess.DEVNULL, pass_fds=fds, start_new_session=True,
            )  # fmt: skip

    def warm_up(self, paths: list[Any], main: dict[str, str]) -> None:
        """Load these handlers' modules in the child, and wait until that is done."""
        self.ask({"warm": paths, "main": main})
        group = self.answer().get("ready")
        self._group = group if isinstance(group, int) else 0

    def ask(self, message: dict[str, Any]) -> None:
        """Send one request."""
        try:
            send(self._talk, message)
        except OSError:
            raise ChildGone(self._how_it_ended()) from None

    def answer(self) -> dict[str, Any]:
        """Wait for the next answer. `ChildGone` if there will be none."""
        try:
            if self._talk.fileno() in {fd for fd, _ in self._news.poll()}:
                message = receive(self._talk, self._most)
                if message is not None:
                    return message
        except BadFrame as error:
            self.kill()
            self._process.wait()
            raise ChildGone(f"its process gave an answer that makes no sense: {error}") from None
        except (OSError, ValueError):  # it was reset, or closed here meanwhile
            pass
        raise ChildGone(self._how_it_ended())

    def reply(self, message: dict[str, Any]) -> None:
        """Send one answer, from any thread, without ever waiting: a child that does not take it is killed."""
        body = frame(message)
        taken = False
        with self._closing, contextlib.suppress(OSError):
            taken = self._talk.send(body, socket.MSG_DONTWAIT) == len(body)
        if not taken:
            self.kill()

    def stop(self) -> None:
        """Ask the handler to end: SIGTERM to its process group."""
        self.spent = True
        self._pull(TERM)

    def kill(self) -> None:
        """End the handler's process group now."""
        self.spent = True
        self._pull(KILL)

    def close(self) -> None:
        """Kill the child if it still runs, and reap it."""
        with self._closing:
            self._talk.close()
            self._rein.close()
        self._process.wait()

    def _pull(self, told: bytes) -> None:
        with self._closing, contextlib.suppress(OSError):  # gone already, which is what was wanted
            self._rein.send(told)

    def _how_it_ended(self) -> str:
        self._pull(KILL)  # if it only stopped talking
        code = self._process.wait()
        if code == -signal.SIGKILL and self._group:  # perhaps its keeper was killed alone
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)
        if code >= 0:
            return f"its process ended with exit code {code} before the handler returned"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        why = "; was it out of memory?" if -code == signal.SIGKILL else ""
        return f"its process was killed by {name}{why}"


_MOST_LOG = LOG_LIMIT + 1_000  # with the line that says how much is left out
_LARGEST_REVISION = 1 << 62


# ── what a child says while its handler runs ──────────────────────────────────────────────────────────────────


class RelayedNotes(Notes):
    """The notes of an attempt in a child: the newest ones that the child has sent."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(lease)
        self._text: str | None = None

    def hear(self, progress: Progress | None, log: str | None) -> bool:
        """Keep what the child has sent. Returns whether this is the first news since the last `take`."""
        with self._lock:
            self._progress, self._text = progress, log
            return self._is_first()

    def take(self) -> Note:
        return super().take()._replace(log=self._text)


class Relay:
    """Passes one attempt's notes and checkpoints to the desk, on the thread that waits for its child."""

    def __init__(self, attempt: Attempt, child: Child) -> None:
        self._attempt = attempt
        self._child = child
        self._notes = RelayedNotes(attempt.lease)
        self._asked: Future[None] | None = None

    def outcome(self) -> Outcome:
        """Pass on what the child sends, until it sends its outcome. `ChildGone` or `BadFrame` if it does not."""
        while True:
            match self._child.answer():
                case {"note": [progress, (None | str()) as log]}:
                    self._note(_progress(progress), log)
                case {"checkpoint": [int(revision), str(value)]}:
                    self._save(revision, value)
                case other:
                    if self._asked is not None and not self._asked.done():
                        raise BadFrame("expected it to wait for its answer")
                    return outcome_from_json(other.get("outcome"))

    def _note(self, progress: Progress | None, log: str | None) -> None:
        if log is not None and len(log) > _MOST_LOG:
            raise BadFrame(f"expected a log of at most {_MOST_LOG} characters, got {len(log)}")
        if self._notes.hear(progress, log) and self._attempt.desk is not None:
            self._attempt.desk.noted(self._notes)

    def _save(self, revision: int, value: str) -> None:
        if self._asked is not None and not self._asked.done():
            raise BadFrame("expected one question at a time")
        if not 0 < revision < _LARGEST_REVISION or not _is_checkpoint(value):
            raise BadFrame(f"expected a checkpoint, got {value[:100]!r}")
        desk = self._attempt.desk
        if desk is None:
            self._child.reply({"failed": "this attempt has no desk: there is nothing to keep its words with"})
            return
        try:
            self._asked = desk.checkpoint(self._attempt.lease, Checkpoint(revision, value))
        except LeaseLost as error:
            self._child.reply({"lost": str(error)})
            return
        self._asked.add_done_callback(self._answer)

    def _answer(self, saved: Future[None]) -> None:
        """On the engine's thread, as a rule."""
        try:
            saved.result()
        except CancelledError:
            self._child.reply({"lost": "its node has stopped; another attempt goes on from its last checkpoint"})
        except LeaseLost as error:
            self._child.reply({"lost": str(error)})
        except OnTheDotError as error:
            self._child.reply({"failed": str(error)})
        else:
            self._child.reply({"saved": True})


def _progress(told: Any) -> Progress | None:
    match told:
        case None:
            return None
        case [int() | float() as done, (None | int() | float()) as of]:
            return Progress(done, of)
    raise BadFrame(f"expected progress, got {str(told)[:100]!r}")


def _is_checkpoint(value: str) -> bool:
    if len(value) > CHECKPOINT_LIMIT:
        return False
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return False
    return True
