"""Runs inside a child process: a **keeper**, and the process that it keeps, which calls handlers.

    worker ──rein──▶ keeper ──signals──▶ the handler's process and everything that it has started
       └─────────────talk: JSON────────────▲

Two sockets connect them to the worker: `talk` carries messages, `rein` carries signals. The handler's process is forked
before any user code is loaded. The keeper only waits. It ends the handler's whole process group when the worker asks
for that. It also does so when the worker was killed, because then the rein closes. A handler that blocks the
interpreter or ignores signals cannot prevent that. The keeper ends in the same way as the handler's process, so that
the worker learns the signal or the exit code.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from onthedot.runners.child_messages import TERM, lease_from_json, outcome_to_json
from onthedot.runners.frames import receive, send

if TYPE_CHECKING:
    from onthedot.model.run import Lease
    from onthedot.runners.child_reporter import ChildReporter
    from onthedot.runners.context import Context

importing = False
"""True in a child process, which loads the user's modules. There they must not start a scheduler."""

_MOST = 64 << 20  # the most bytes of a request; far more than a worker sends


class Stopped(BaseException):
    """Raised in a handler that is asked to end, so that its `finally` blocks run."""


def main(talk_fd: int, rein_fd: int) -> NoReturn:
    """Fork. The parent becomes the keeper, and the child calls the handlers."""
    talk, rein = socket.socket(fileno=talk_fd), socket.socket(fileno=rein_fd)
    for end in (talk, rein):
        end.set_inheritable(False)  # processes that a handler starts must not hold them open
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # wakes `select`
    served = os.fork()
    if served:
        talk.close()
        keep(served, rein, woken)
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    rein.close()
    os.close(woken)
    os.close(wake)
    serve(talk)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


# ── the keeper ───────────────────────────────────────────────────────────────────────────────────────────────


def keep(served: int, rein: socket.socket, woken: int) -> NoReturn:
    """Pass signals on to the group of `served` until it has ended. Then end in the same way."""
    for deaf in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(deaf, signal.SIG_IGN)
    with contextlib.suppress(OSError):  # the child has already done this, or is gone
        os.setpgid(served, served)
    status = 0
    while True:
        ended, status = os.waitpid(served, os.WNOHANG)
        if ended:
            break
        ready, _, _ = select.select([rein.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
        if rein.fileno() in ready:
            told = rein.recv(1)
            _signal_group(served, signal.SIGTERM if told == TERM else signal.SIGKILL)
            if not told:  # the worker is gone
                _, status = os.waitpid(served, 0)
                break
    _signal_group(served, signal.SIGKILL)  # processes that the handler has left
    _end_as(status)


def _signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _end_as(status: int) -> NoReturn:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core dump is enough
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


# ── the handler's process ────────────────────────────────────────────────────────────────────────────────────


def serve(talk: socket.socket) -> None:
    """Call the handlers that the worker requests, one after the other, until the worker closes the socket."""
    signal.signal(signal.SIGTERM, _leave)
    while (asked := receive(talk, _MOST)) is not None:
        if "warm" in asked:
            for path in asked["warm"]:
                try:
                    _function(path, asked["main"])
                except Exception as error:  # noqa: BLE001 - a later call of this handler fails with this error
                    print(f"onthedot: {'.'.join(path)} cannot be imported: {error}", file=sys.stderr)
            send(talk, {"ready": os.getpid()})
        else:
            send(talk, {"outcome": outcome_to_json(_perform(asked, talk))})


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Exit, because SIGTERM came between two calls."""
    del number, frame
    os._exit(0)


def _perform(asked: dict[str, Any], talk: socket.socket) -> Any:
    from onthedot.runners.child_reporter import ChildReporter
    from onthedot.runners.outcomes import failed, succeeded, trace_of

    reporter, lease = ChildReporter(talk), lease_from_json(asked["lease"])
    try:
        value = _call(asked, lease, reporter)
        signal.signal(signal.SIGTERM, _leave)
        outcome = succeeded(value, asked["result_bytes"])
    except BaseException as error:  # noqa: BLE001 - whatever it raises is its outcome
        signal.signal(signal.SIGTERM, _leave)
        outcome = failed(error)
        reporter.trace(lease, trace_of(error))
    reporter.close()
    return outcome


def _call(asked: dict[str, Any], lease: Lease, reporter: ChildReporter) -> object:
    from onthedot.runners.context import Context
    from onthedot.runners.registry import Handler

    handler = Handler.of(lease.record.job.name, _function(asked["handler"], asked["main"]))
    started_at, timeout = asked["started_at"], asked["timeout"]
    context = Context(lease, reporter, started_at + timeout if timeout else None, started_at)
    if handler.is_coroutine:
        return _await(lambda: handler.call(lease, context), context)

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        """Interrupt the call, once. The worker kills a handler that does not end in time."""
        del frame
        signal.signal(number, signal.SIG_IGN)
        context.cancelled.told = True  # no lock here: the interrupted code may hold it
        raise Stopped("stopped by its worker")

    signal.signal(signal.SIGTERM, stop)
    try:
        return handler.call(lease, context)
    except Stopped:
        context.cancelled.set()  # for threads of the handler that wait for it
        raise


def _await(begin: Callable[[], Any], context: Context) -> object:
    import asyncio

    async def until_stopped() -> object:
        task = asyncio.current_task()

        def stop() -> None:
            context.cancelled.set()
            if task is not None:
                task.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
        return await begin()

    return asyncio.run(until_stopped())


def _function(path: list[str], main_module: dict[str, str]) -> Callable[..., Any]:
    """Import the handler by the path that the worker's program has registered."""
    import importlib

    from onthedot.runners.registry import handler_in

    global importing
    module_name, name = path
    importing = True
    try:
        found: Any = _import_main(main_module) if module_name == "__main__" else importlib.import_module(module_name)
    finally:
        importing = False
    for part in name.split("."):
        found = getattr(found, part)
    function: Callable[..., Any] = handler_in(found)
    return function


def _import_main(where: dict[str, str]) -> ModuleType:
    """Import the main module under the name that `multiprocessing` uses, so that code below its `__main__` check does
    not run."""
    import runpy

    alias = "__mp_main__"
    if alias not in sys.modules:
        main = ModuleType(alias)
        if "name" in where:
            names = runpy.run_module(where["name"], run_name=alias, alter_sys=True)
        else:
            names = runpy.run_path(where["path"], run_name=alias)
        main.__dict__.update(names)
        sys.modules["__main__"] = sys.modules[alias] = main
    return sys.modules[alias]
