"""A pytest plugin that sorts tests into lanes and keeps child processes out of unmarked tests.

| mark | which tests | `make unit` | `make test` | `make soak` |
|---|---|---|---|---|
| none | no server, no child process, under a second | yes | yes | yes |
| `slow` | a server, a child process, or more than a second | | yes | yes |
| `soak` | takes minutes, or is the long form of a test that `make test` runs | | | yes |

A test that asks for a fixture of `STARTS_A_PROCESS`, or has a parameter of `NEEDS_A_SERVER`, gets the mark `slow` by
itself. Every other test that starts a child process must carry the mark: without it the test fails, in every lane.

`make soak` also sets `ONTHEDOT_SOAK` to a number. Then `SOAK` is true, and tests draw more and new examples. Every new
seed begins with this number, so that a failure can be repeated: `make soak SEED=<number>`.
"""

from __future__ import annotations

import gc
import multiprocessing.util
import os
import sys
from collections.abc import Collection, Generator, Iterable
from typing import Any

import pytest
from hypothesis import settings

SEED = os.environ.get("ONTHEDOT_SOAK", "")
SOAK = bool(SEED)

# fmt: off
STARTS_A_PROCESS = {
    "postgres", "postgres_server", "pgbouncer", "valkey", "valkey_server", "debian_redis", "podman", "s3", "s3_server",
    "guarded",
}
NEEDS_A_SERVER = {"postgres", "redis", "valkey", "s3"}
STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.spawn", "os.system"}
# fmt: on

# There is no deadline per example, because a busy machine must not fail a property; pytest's time-out is enough.
# `make test` always tries the same examples; `make soak` tries more and new ones.
settings.register_profile("test", deadline=None, derandomize=True, database=None)
settings.register_profile("soak", deadline=None, derandomize=False, database=None, max_examples=1_000, print_blob=True)
settings.load_profile("soak" if SOAK else "test")


def seeds(*, test: int, soak: int, fresh: int) -> list[str]:
    """Return the seeds 1, 2, 3 … for `make test` or `make soak`, and `fresh` new ones in `make soak`."""
    fixed = [str(number) for number in range(1, (soak if SOAK else test) + 1)]
    return [*fixed, *(f"{SEED}-{number}" for number in range(fresh))] if SOAK else fixed


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude the collected tests from garbage collection, which would take a third of the time."""
    gc.disable()
    result = yield
    gc.enable()
    gc.freeze()
    return result


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and _needs_a_server(item):
            item.add_marker("slow")


def _needs_a_server(item: pytest.Function) -> bool:
    """Return whether a fixture of the test starts a server, or a parameter names a store that needs one."""
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return not STARTS_A_PROCESS.isdisjoint(item.fixturenames) or any(
        isinstance(value, str) and value in NEEDS_A_SERVER for value in given
    )


class _Watch:
    """Stops every child process that starts during an unmarked test."""

    def __init__(self) -> None:
        self.on = False
        self.seen = ""

    def notice(self, event: str, arguments: Iterable[Any] = ()) -> None:
        self.seen = f"{event}{tuple(arguments)!r:.200}"
        pytest.fail(f"this test starts a child process, so it needs @pytest.mark.slow: {self.seen}")


_watch = _Watch()


def forget() -> None:
    """Let the running test pass although it tried to start a process, because it tests just that."""
    _watch.seen = ""


def _audit(event: str, arguments: tuple[Any, ...], starts: Collection[str] = STARTS, watch: _Watch = _watch) -> None:
    """Notice the start of a process. The globals are default arguments: Python calls this even after they are gone."""
    if event in starts and watch.on:
        watch.notice(event, arguments[:2])


def _watched_spawn(path: Any, arguments: Any, passed: Any, spawn: Any = multiprocessing.util.spawnv_passfds) -> Any:
    """Notice a child of `multiprocessing`, which raises no audit event."""
    if _watch.on:
        _watch.notice("multiprocessing", arguments)
    return spawn(path, arguments, passed)


def pytest_configure() -> None:
    sys.addaudithook(_audit)
    multiprocessing.util.spawnv_passfds = _watched_spawn  # type: ignore[assignment]


def _watching(item: pytest.Item) -> Generator[None, object, object]:
    _watch.on = not any(item.iter_markers("slow")) and not any(item.iter_markers("soak"))
    _watch.seen = ""
    try:
        result = yield
    finally:
        _watch.on = False
    if _watch.seen:  # the test swallowed the error
        pytest.fail(f"this test starts a child process, so it needs @pytest.mark.slow: {_watch.seen}", pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _watching(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _watching(item))
