"""`onthedot up` on a real terminal: what a person sees while it runs, while it drains, and afterwards."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.screen import Screen
from tests.cli.started import napping, wake

pytestmark = pytest.mark.slow

PATIENCE = 40.0


class Terminal:
    """A pseudo-terminal with `onthedot up` in it."""

    def __init__(self, folder: Path, *arguments: str, rows: int, columns: int, term: str) -> None:
        self.screen = Screen()
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "onthedot", "up", "--node-id", "one", *arguments],
            cwd=folder, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**os.environ, "TERM": term, "TZ": "UTC"},
        )  # fmt: skip
        os.close(slave)

    def until_shown(self, *words: str) -> None:
        """Read on until all of these are on the screen: a read may end in the middle of a picture."""
        self.until(lambda shown: all(word in shown for word in words))

    def until(self, found: Callable[[str], bool]) -> str:
        """Read on until the screen is so; what it shows then."""
        give_up_at = time.monotonic() + PATIENCE
        while not found(self.screen.text()):
            left = give_up_at - time.monotonic()
            assert left > 0, f"it did not come; the screen shows:\n{self.screen.text()}"
            if not self._read(left):
                assert found(self.screen.text()), f"it ended before; the screen shows:\n{self.screen.text()}"
        return self.screen.text()

    def _read(self, patience: float) -> bool:
        if not select.select([self._master], [], [], patience)[0]:
            return True
        try:
            some = os.read(self._master, 65_536)
        except OSError:  # Linux says so when the last writer has gone
            some = b""
        self.screen.feed(some.decode(errors="replace"))
        return bool(some)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """Read to the end; the exit code."""
        while self._read(PATIENCE):
            pass
        return self._process.wait(PATIENCE)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)


@contextmanager
def terminal(
    folder: Path, *arguments: str, rows: int = 30, columns: int = 100, term: str = "xterm-256color"
) -> Iterator[Terminal]:
    made = Terminal(folder, *arguments, rows=rows, columns=columns, term=term)
    try:
        yield made
    finally:
        made.close()


def test_it_shows_what_comes_runs_and_ended_and_drains_on_ctrl_c(tmp_path: Path):
    with terminal(tmp_path, napping(tmp_path)) as up:
        up.until_shown("onthedot  node one · leads (term 1) · onthedot.db")
        up.until_shown("running   nap", "next      ", "Ctrl-C drains and stops; a second one stops now")
        assert up.screen.cursor_hidden
        up.signal(signal.SIGINT)
        up.until_shown("draining: waits for nap run", "another Ctrl-C stops now")
        wake(tmp_path)
        assert up.end() == 0
    last = up.screen.text()
    assert "left       node one" in last
    assert "node one · " not in last, "the view is gone"
    assert "dead, 0 skipped; late p50" in " ".join(last.split()[-24:]), "and the counts stay, however wide they are"
    assert not up.screen.cursor_hidden


def test_it_shows_how_far_an_attempt_is(tmp_path: Path):
    with terminal(tmp_path) as up:
        picture = up.until(lambda shown: bool(with_progress(shown)))
        [row] = with_progress(picture)
        assert row.startswith(("running   flaky_import", "          flaky_import"))
        up.signal(signal.SIGINT)
        assert up.end() == 0


def with_progress(shown: str) -> list[str]:
    return [line for line in shown.split("\n") if " of 120" in line and "attempt 3" in line]


def test_a_second_ctrl_c_cuts_attempts_short_and_leaves_the_terminal_in_order(tmp_path: Path):
    with terminal(tmp_path, napping(tmp_path), rows=8, columns=60) as up:
        up.until_shown("started    nap")
        up.signal(signal.SIGINT)
        up.until_shown("draining")
        up.signal(signal.SIGINT)
        assert up.end() == 130
    assert "cut short  nap" in up.screen.text()
    assert not up.screen.cursor_hidden


@pytest.mark.parametrize(
    ("arguments", "term"), [(("--plain",), "xterm-256color"), ((), "dumb"), (("--json",), "xterm-256color")]
)
def test_plain_lines_where_they_are_asked_for_or_nothing_can_be_drawn(
    tmp_path: Path, arguments: tuple[str, ...], term: str
):
    with terminal(tmp_path, *arguments, "--for", "1s", term=term) as up:
        assert up.end() == 0
    assert "so far" not in up.screen.text()
    assert "one" in up.screen.text()
