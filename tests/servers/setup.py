"""Installs the Debian programs that tests need: `python -m tests.servers.setup`, if it has the right to.

With `--soak` it also installs what only `make soak` needs. No test is skipped silently: if a program is missing and
could be installed, the tests that need it fail with the command to install it. If the right is missing, they are
skipped, and the end of the test run lists them as NOT TESTED.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

SYSTEM_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # where Debian puts servers


@dataclass(frozen=True)
class Program:
    """A program from Debian, and what is not tested without it."""

    command: str
    package: str
    purpose: str

    @property
    def install_line(self) -> str:
        return f"apt-get install -y --no-install-recommends {self.package}"

    def found(self) -> str | None:
        """Its path, or None."""
        return shutil.which(self.command, path=SYSTEM_PATH)

    def may_be_installed(self) -> bool:
        """Whether we are root and have Debian's installer."""
        return os.geteuid() == 0 and shutil.which("apt-get", path=SYSTEM_PATH) is not None

    def why_missing(self) -> str:
        """One line for the end of a test run, with the command to install it."""
        return f"{self.purpose}: {self.command} is not installed; as root: {self.install_line}"


PGBOUNCER = Program("pgbouncer", "pgbouncer", "PostgreSQL through PgBouncer in transaction mode")
REDIS = Program("redis-server", "redis-server", "the Redis store on Debian's redis-server, and over TLS")
BUBBLEWRAP = Program("bwrap", "bubblewrap", "programs in a sandbox")
PODMAN = Program("podman", "podman runc busybox-static", "containers in a real engine")
PROMTOOL = Program("promtool", "prometheus", "the alert rules in Prometheus' own tool")
PROGRAMS = (PGBOUNCER, REDIS, BUBBLEWRAP, PODMAN)
SOAK_PROGRAMS = (*PROGRAMS, PROMTOOL)


def install(programs: tuple[Program, ...] = PROGRAMS) -> int:
    """Install missing programs if we may. Return the exit code of `make`."""
    failed = 0
    for program in programs:
        if program.found():
            continue
        if not program.may_be_installed():
            print(f"will not be tested: {program.why_missing()}")
            continue
        failed |= _run(program.install_line) and _run("apt-get update") + _run(program.install_line)
        if not program.found():
            failed = 1
            print(
                f"{program.command} could not be installed; the tests need it: {program.why_missing()}", file=sys.stderr
            )
    return 1 if failed else 0


def _run(line: str) -> int:
    print(f"+ {line}", flush=True)
    return subprocess.run(line.split(), env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(install(SOAK_PROGRAMS if "--soak" in sys.argv else PROGRAMS))
