"""Probes which levels of isolation this machine offers. For the worker: the guard does not load it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from onthedot.model.task import Level
from onthedot.runners.guard.sandbox import bubblewrap, in_descriptors, sandbox_files
from onthedot.runners.guard.users import USERS

_PATIENCE = 10  # seconds for a program that does nothing


def probe() -> frozenset[Level]:
    """The levels that work on this machine. Only Linux has any."""
    if sys.platform != "linux":
        return frozenset()
    levels: set[Level] = {"none", "process"}
    uid = USERS[-1] if os.geteuid() == 0 else None
    if uid is not None and _works(user_trial(), None):
        levels.add("user")
    with in_descriptors(sandbox_files({}, 0, "/")) as handed:
        # what it may write to does not matter here
        if _works([*bubblewrap("/usr", "/usr", handed=handed), "true"], uid, handed):
            levels.add("sandbox")
    return frozenset(levels)


def user_trial() -> list[str]:
    """The command that tries out whether a program can have a user and folders of its own."""
    found_at = f"PYTHONPATH={Path(__file__).parents[3]}"
    words = ["-S", "-P", "-m", "onthedot.runners.guard.namespaces", str(USERS[-1])]
    return ["/usr/bin/env", "-i", found_at, sys.executable, *words]


def _works(words: list[str], uid: int | None, handed: Sequence[int] = ()) -> bool:
    rights = {} if uid is None else {"user": uid, "group": uid, "extra_groups": ()}
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(  # noqa: S603 - words of our own
            words, cwd="/", env={"PATH": os.defpath}, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=_PATIENCE, check=False, pass_fds=handed, **rights,  # type: ignore[call-overload]
        )  # fmt: skip
        return bool(done.returncode == 0)
    return False
