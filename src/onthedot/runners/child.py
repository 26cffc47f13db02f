"""One child process, as its worker sees it: started, talked to, stopped, and always reaped."""

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
from typing import Any

from onthedot.runners.child_messages import KILL, TERM
from onthedot.runners.frames import BadFrame, frame, receive, send

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]); "
    "from onthedot.runners.child_main import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)


class ChildGone(Exception):
    """The child has ended, or can no longer be talked to; the text says how."""


class Child:
    """A warm process that calls one handler after the other.

    Its own session, so that a Ctrl-C at the terminal is not for it. Started without running any of our code between
    fork and exec, which is what makes it safe beside threads.
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
        """Have these handlers' modules loaded, and wait until that is done."""
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
        """Let go: whatever still runs is killed, and the process is reaped."""
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
