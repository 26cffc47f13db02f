"""Handlers that run in child processes. They are in a module, because a child has to import them."""

import asyncio
import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onthedot as otd
from onthedot.runners import frames


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


def closes_all_descriptors() -> None:
    os.closerange(3, 256)
    time.sleep(60)


def sends_garbage() -> None:
    for fd in range(3, 64):
        try:
            os.write(fd, b"\x00\x00\x00\x05hello")
        except OSError:
            continue


def holds_the_lock() -> None:
    ctypes.PyDLL(None).sleep(60)  # a foreign call that keeps the lock of the interpreter


def backtracks_for_ever() -> None:
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


def ignores_sigterm(path: str) -> None:
    """Starts another process. Both end only by SIGKILL."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    beside = subprocess.Popen([sys.executable, "-c", "import signal; signal.signal(15, 1); signal.pause()"])
    whole = Path(path)
    part = whole.with_suffix(".part")
    part.write_text(f"{os.getpid()} {beside.pid}")
    part.rename(whole)
    while True:
        time.sleep(60)


# ── what a handler stores with its run ───────────────────────────────────────────────────────────────────────


async def pages(ctx: otd.Context) -> dict[str, Any]:
    first = ctx.last_checkpoint or 0
    for page in range(first, 10):
        await ctx.checkpoint(page)
        ctx.progress(page, of=10)
        ctx.log(f"attempt {ctx.attempt}: page {page}")
        if page == 5 and ctx.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    return {"first": first, "last": ctx.last_checkpoint, "deadline": str(ctx.deadline), "stop": bool(ctx.cancelled)}


def pages_blocking(ctx: otd.Context) -> dict[str, Any]:
    first = ctx.last_checkpoint or 0
    for page in range(first, 10):
        ctx.checkpoint_blocking(page)
        ctx.progress(page, of=10)
        if page == 5 and ctx.attempt == 1:
            raise ConnectionError("in the middle")
    return {"first": first, "last": ctx.last_checkpoint}


def chatters(ctx: otd.Context) -> None:
    for number in range(20_000):
        ctx.log(f"line {number}")
        ctx.progress(number)


def reports_and_waits(ctx: otd.Context, path: str) -> None:
    ctx.progress(1, of=3)
    ctx.progress(2, of=3)
    ctx.log("here")
    while not Path(path).exists():
        time.sleep(0.01)


def saves_twice(ctx: otd.Context) -> str:
    ctx.checkpoint_blocking(1)
    try:
        ctx.checkpoint_blocking(2)
    except otd.LeaseLost as error:
        return f"LeaseLost: {error}"
    return "saved"


async def abandons_a_checkpoint(ctx: otd.Context) -> None:
    asked = asyncio.ensure_future(ctx.checkpoint(7))
    await asyncio.wait([asked], timeout=0)
    asked.cancel()


def not_a_checkpoint(ctx: otd.Context) -> None:
    ctx.checkpoint_blocking({1, 2})


def sees_the_cancel(ctx: otd.Context, path: str) -> None:
    try:
        Path(path).write_text("began")
        time.sleep(60)
    finally:
        Path(path).write_text(f"cancelled: {bool(ctx.cancelled)}")


async def sees_the_cancel_async(ctx: otd.Context, path: str) -> None:
    try:
        note(path, "began")
        await asyncio.sleep(60)
    finally:
        note(path, f"cancelled: {bool(ctx.cancelled)}")


def breaks_the_protocol(kind: str) -> None:
    """Send invalid messages in place of the reporter, as a hostile handler could."""
    messages: dict[str, list[dict[str, Any]]] = {
        "two at once": [{"checkpoint": [1, "1"]}, {"checkpoint": [2, "2"]}],
        "no answer wanted": [{"checkpoint": [1, "1"]}, {"outcome": ["succeeded", None, [], None]}],
        "no JSON": [{"checkpoint": [1, "{"]}],
        "too large": [{"checkpoint": [1, "[" + "1," * 40_000 + "1]"]}],
        "no revision": [{"checkpoint": [0, "1"]}],
        "a log without end": [{"note": [None, "x" * 70_000]}],
        "no numbers": [{"note": [["1", "2"], None]}],
        "another word": [{"submit": "os.system"}],
    }
    talk = socket.socket(fileno=int(sys.argv[1]))
    for message in messages[kind]:
        frames.send(talk, message)
    time.sleep(60)


def has_a_deadline(ctx: otd.Context) -> str:
    return str(ctx.deadline)
