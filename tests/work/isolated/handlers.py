"""Handlers that are run in child processes: importable, as theirs have to be."""

import asyncio
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onthedot as otd


def where() -> dict[str, int]:
    return {"pid": os.getpid(), "parent": os.getppid()}


async def where_async(ctx: otd.Context, word: str = "") -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"pid": os.getpid(), "run_id": ctx.run_id, "fence": ctx.fence, "attempt": ctx.attempt, "word": word}


def echo(**arguments: Any) -> dict[str, Any]:
    return arguments


def segfault() -> None:
    ctypes.string_at(0)


def exits() -> None:
    os._exit(7)


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sys_exits() -> None:
    sys.exit(3)


def interrupts() -> None:
    raise KeyboardInterrupt


def raises() -> None:
    raise ConnectionResetError("no line")


def large() -> str:
    return "x" * 2_000


def not_json() -> object:
    return object()


def generates() -> Iterator[int]:
    yield 1


def closes_everything() -> None:
    os.closerange(3, 256)
    time.sleep(60)


def talks_nonsense() -> None:
    for fd in range(3, 64):
        try:
            os.write(fd, b"\x00\x00\x00\x05hello")
        except OSError:
            continue


def holds_the_lock() -> None:
    ctypes.PyDLL(None).sleep(60)  # a foreign call that keeps the interpreter's lock


def catastrophe() -> None:
    re.match(r"(a+)+$", "a" * 60 + "b")


def cleans_up(path: str) -> None:
    try:
        Path(path).write_text("began")
        time.sleep(60)
    finally:
        Path(path).write_text("cleaned up")


def note(path: str, text: str) -> None:
    Path(path).write_text(text)


async def cleans_up_async(path: str) -> None:
    try:
        note(path, "began")
        await asyncio.sleep(60)
    finally:
        note(path, "cleaned up")


def will_not_end(path: str) -> None:
    """With a process of its own beside it, and deaf to everything but SIGKILL."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    beside = subprocess.Popen([sys.executable, "-c", "import signal; signal.signal(15, 1); signal.pause()"])
    whole = Path(path)
    part = whole.with_suffix(".part")
    part.write_text(f"{os.getpid()} {beside.pid}")
    part.rename(whole)
    while True:
        time.sleep(60)
