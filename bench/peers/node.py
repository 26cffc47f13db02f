"""One process of a measured system. It executes the commands of the driver.

    python -m bench.peers.nodes.NAME URL [OPTION…] [--first]

The driver writes one command per line: a JSON list of a verb and its arguments. The process answers each with one line
of JSON, {"answer": …} or {"error": …}. It ends when its standard input ends. With `--first` it starts to work before
the first command.

    version                 return the version of the package, and whether it has a bulk submit
    prepare                 make the tables
    connect                 open what `submit` needs
    disconnect              close it
    submit SECONDS          submit one by one for so long, and return [count, seconds]
    at_once SECONDS         the same, 64 at the same time
    bulk SECONDS            the same, many per call
    fill COUNT              submit jobs that are due now
    fill_at COUNT INSTANT   submit jobs that are due at one instant, in ns
    one NUMBER              submit one job, and return the instant before the call, in ns
    start                   start to work
    executed                return how many handlers have started
    stop                    finish and acknowledge what was started; return the numbers and instants of all starts
    left                    return how many jobs are not acknowledged, or null if the system cannot tell

This module imports nothing of onthedot, because peers have their own environments.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, TextIO

AT_ONCE = 64
BULK = 1_000  # jobs per call, for a system that can submit many in one call
LOOP = 50  # jobs between two reads of the clock, for a system that cannot
FILL = 5_000


class Node:
    """One process of a system. Subclasses submit and work with that system.

    Every job has one number as its argument. Its handler passes that to `note`, and does nothing else.
    """

    distribution: ClassVar[str]
    """The package whose version is reported."""

    has_bulk: ClassVar[bool] = False
    """Whether the system can submit many jobs in one call. If not, `submit_bulk` submits one by one."""

    uses_uvloop: ClassVar[bool] = False
    """Whether the event loop is uvloop."""

    def __init__(self, url: str, options: Sequence[str]) -> None:
        self.url = url
        self.options = options
        self.starts: list[tuple[int, int]] = []
        self.began: int | None = None
        """The start of the work, in ns, for a system that fetches all jobs before it starts the first."""
        self.ended: int | None = None
        """The last acknowledgement, in ns, for a system that starts all jobs before it acknowledges the first."""

    def note(self, number: int) -> None:
        """The handler of every job."""
        self.starts.append((number, time.time_ns()))

    @property
    def path(self) -> str:
        """The file, for SQLite."""
        return self.url.removeprefix("sqlite:///")

    async def prepare(self) -> None:
        """Make the tables."""

    async def connect(self) -> None:
        """Open what `submit` needs."""

    async def disconnect(self) -> None:
        """Close what `connect` opened."""

    async def submit(self, number: int) -> None:
        """Submit one job that is due now. It is stored when this returns."""
        raise NotImplementedError

    async def submit_at_once(self, numbers: Sequence[int]) -> None:
        """Submit these at the same time, one call each."""
        await asyncio.gather(*map(self.submit, numbers))

    async def submit_bulk(self, numbers: Sequence[int]) -> None:
        """Submit these in one call, if the system has one."""
        for number in numbers:
            await self.submit(number)

    async def submit_at(self, numbers: Sequence[int], instant: int) -> None:
        """Submit jobs that are all due at this instant, in nanoseconds."""
        raise NotImplementedError

    async def fill(self, count: int) -> None:
        """Fill the queue. The time for this is not measured."""
        size = FILL if self.has_bulk else LOOP
        for first in range(0, count, size):
            await self.submit_bulk(range(first, min(first + size, count)))

    async def start(self) -> None:
        """Start to work."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Stop. Everything that was executed is acknowledged when this returns."""
        raise NotImplementedError

    async def left(self) -> int | None:
        """Return how many jobs are not acknowledged, or None if the system cannot tell."""
        return None


class BlockingNode(Node):
    """A node whose client blocks. It submits many at once from threads."""

    def __init__(self, url: str, options: Sequence[str]) -> None:
        super().__init__(url, options)
        self._threads: ThreadPoolExecutor | None = None

    def submit_now(self, number: int) -> None:
        """Submit one job, and block."""
        raise NotImplementedError

    async def submit(self, number: int) -> None:
        self.submit_now(number)

    async def submit_at_once(self, numbers: Sequence[int]) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(AT_ONCE)
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(self._threads, self.submit_now, number) for number in numbers))


class Commands:
    """The commands of the driver, on a node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._cpu = 0.0

    async def version(self) -> dict[str, Any]:
        return {"version": importlib.metadata.version(self._node.distribution), "has_bulk": self._node.has_bulk}

    async def prepare(self) -> None:
        await self._node.prepare()

    async def connect(self) -> None:
        await self._node.connect()

    async def disconnect(self) -> None:
        await self._node.disconnect()

    async def submit(self, seconds: float) -> tuple[int, float]:
        return await self._rate(seconds, 1, lambda numbers: self._node.submit(numbers[0]))

    async def at_once(self, seconds: float) -> tuple[int, float]:
        return await self._rate(seconds, AT_ONCE, self._node.submit_at_once)

    async def bulk(self, seconds: float) -> tuple[int, float]:
        return await self._rate(seconds, BULK if self._node.has_bulk else LOOP, self._node.submit_bulk)

    async def _rate(
        self, seconds: float, size: int, submit: Callable[[Sequence[int]], Awaitable[None]]
    ) -> tuple[int, float]:
        """Submit for so long. The first call is not timed, because it opens connections."""
        await submit(range(size))
        count, began = 0, time.perf_counter()
        while (took := time.perf_counter() - began) < seconds:
            await submit(range(count + size, count + 2 * size))
            count += size
        return count, took

    async def fill(self, count: int) -> None:
        await self._node.fill(count)

    async def fill_at(self, count: int, instant: int) -> None:
        await self._node.submit_at(range(count), instant)

    async def one(self, number: int) -> int:
        called = time.time_ns()
        await self._node.submit(number)
        return called

    async def start(self) -> None:
        self._node.starts.clear()
        self._cpu = time.process_time()
        await self._node.start()

    async def executed(self) -> int:
        return len(self._node.starts)

    async def stop(self) -> dict[str, Any]:
        await self._node.stop()
        used = time.process_time() - self._cpu
        numbers, instants = [number for number, _ in self._node.starts], [instant for _, instant in self._node.starts]
        return {"numbers": numbers, "instants": instants, "cpu": used, "began": self._node.began,
                "ended": self._node.ended}  # fmt: skip

    async def left(self) -> int | None:
        return await self._node.left()


def main(make: Callable[[str, Sequence[str]], Node]) -> None:
    """Run a node until the standard input ends."""
    answers = _take_output()
    url, *options = sys.argv[1:]
    is_first = "--first" in options
    node = make(url, [option for option in options if option != "--first"])
    if node.uses_uvloop:
        import uvloop

        uvloop.run(_serve(node, answers, is_first=is_first))
    else:
        asyncio.run(_serve(node, answers, is_first=is_first))


def _take_output() -> TextIO:
    """Keep the standard output for answers: prints of the system go to the standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # what a system prints is there at once
    return answers


async def _serve(node: Node, answers: TextIO, *, is_first: bool) -> None:
    commands, lines = Commands(node), asyncio.Queue[str]()
    if is_first:
        await commands.start()
        if node.url == "memory:":
            await node.submit(0)
    loop = asyncio.get_running_loop()
    threading.Thread(target=_read, args=(loop, lines), daemon=True).start()
    while True:
        verb, *arguments = json.loads(await lines.get())
        try:
            answer = {"answer": await getattr(commands, verb)(*arguments)}
        except NotImplementedError:
            answer = {"error": f"{verb}: this system does not have it"}
        except Exception as error:  # noqa: BLE001 - the driver reports it
            answer = {"error": f"{verb}: {type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def _read(loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[str]) -> None:
    """Pass on commands. At the end of the input, end the process at once with all its threads."""
    for line in sys.stdin:
        loop.call_soon_threadsafe(lines.put_nowait, line)
    os._exit(0)
