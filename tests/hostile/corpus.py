"""The hostile jobs, as data: what each does, its isolation level, and how its run must end.

Every job is bounded in number, time and memory, because other programs share the machine. A program forks without end
only at a level that enforces a limit on processes.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from onthedot.model.task import Bounds, Param
from tests.runners.guard.guarded_programs import PYTHON

SECRET = "Grüße & 'kisses' from 4/7?"
"""A job gets this value and prints it in three encodings."""
SECRET_NAME = "HOSTILE_CANARY"

FORKS_WITHOUT_END = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("bound", "w").write(open("/proc/self/limits").read())
deadline = time.monotonic() + 20
while time.monotonic() < deadline:
    try:
        os.fork()
    except OSError:
        time.sleep(0.02)
"""
TAKES_MEMORY = """
held = []
while True:
    held.append(bytearray(1 << 20))
"""
DOUBLE_FORK = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        with open("away", "w") as file:
            file.write(f"{os.getpid()}\\n")
        os.execve("/bin/sleep", ["sleep", "300"], {})
    os._exit(0)
while not os.path.exists("away") or not open("away").read().endswith("\\n"):
    time.sleep(0.01)
time.sleep({then})
"""
IGNORES_TERM = "trap '' TERM HUP INT; while :; do sleep 0.05; done"
CLOSES_ITS_OUTPUT = "import os, time; os.close(1); os.close(2); time.sleep(0.3)"
MANY_FILES = "for i in range(100_000): open(f'f{i}', 'w').close()"
PRINTS_SECRETS = """
import base64, os, urllib.parse
value = os.environ["SECRET"]
print(value, base64.b64encode(value.encode()).decode(), urllib.parse.quote(value, safe=""), sep="\\n")
"""
ESCAPES = r"printf '\033]0;title\007\033[2J\033[1;1H\033P$q\033\\\033[?1049h\r\010still here\n'"
READS_PROC = "cat /proc/*/environ /proc/*/cmdline /proc/*/maps > found 2>/dev/null || true; head -c 1000000 found"
CONNECTS = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 2)"


class Hostile(NamedTuple):
    """One hostile job. `words` are the arguments of its program. `{store}` and `{port}` in them are placeholders."""

    name: str
    words: tuple[str, ...]
    ends: str  # the error of its run starts with this; empty: it succeeds
    level: Literal["none", "user", "sandbox"] = "none"
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed


TIMEOUT = 4.0  # seconds, for jobs that would run for ever
TIMED_OUT = "took longer than its time-out"
ENDLESS = {"timeout": f"{TIMEOUT:g}s"}
LITTLE_OUTPUT = Bounds(output=64 << 10)


def python(source: str, *more: str) -> tuple[str, ...]:
    return (PYTHON, "-c", source, *more)


def shell(text: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", text)


CORPUS = (
    Hostile("fork-bomb", python(FORKS_WITHOUT_END), TIMED_OUT, "user", {**ENDLESS, "bounds": Bounds(processes=40)}),
    Hostile(
        "memory-hog", python(TAKES_MEMORY), "killed: it took more memory", options={"bounds": Bounds(memory=128 << 20)}
    ),
    Hostile("yes", ("yes",), TIMED_OUT, options={**ENDLESS, "bounds": LITTLE_OUTPUT}),
    Hostile(
        "a-gigabyte-without-a-newline",
        shell("head -c 1G /dev/zero | tr '\\0' x"),
        "",
        options={"bounds": LITTLE_OUTPUT, "timeout": "60s"},
    ),
    Hostile("ignores-term", shell(IGNORES_TERM), TIMED_OUT, options=ENDLESS),
    Hostile("forks-away", python(DOUBLE_FORK.replace("{then}", "0.1")), ""),
    Hostile("closes-its-output", python(CLOSES_ITS_OUTPUT), ""),
    Hostile("never-reads", ("sleep", "0.3"), "", options={"stdin": "x" * 60_000}),
    Hostile("many-files", python(MANY_FILES), "", "user", {"timeout": "60s"}),
    Hostile(
        "kills-its-parent",
        shell("sleep 300 & kill -9 $PPID; sleep 300"),
        "its program was stopped: its guard died",
        options={"max_recoveries": 1},
    ),
    Hostile(
        "prints-secrets", python(PRINTS_SECRETS), "", options={"env": {"SECRET": f"${{{{ secrets.{SECRET_NAME} }}}}"}}
    ),
    Hostile("escape-sequences", shell(ESCAPES), ""),
    Hostile("reads-proc", shell(READS_PROC), "", "sandbox"),
    Hostile(
        "reads-other-workspaces",
        shell('! cat "$NOTE" && ! ls "${NOTE%/*}"'),
        "",
        "user",
        options={"env": {"NOTE": "${{ params.note }}"}, "params": (Param(name="note"),)},
    ),
    Hostile("reads-the-store", shell("! cat {store} && ! ln {store} mine && ! test -w {store}"), "", "user"),
    Hostile("has-no-network", python(CONNECTS, "{port}"), "exit code 1", "sandbox"),
)
