"""Runs dramatiq in the peers' environment: as one process of a crew, or to fill and to count.

    python -m bench.dramatiq_node fill|count|work <url> <number>

`fill` makes `number` messages and prints their numbers, `count` prints how many are left, and `work` is a worker. It
has no middleware that this work does not need (time limits, retries, results …), and the number of threads and of
prefetched messages that was fastest here.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

os.environ["dramatiq_queue_prefetch"] = "500"  # noqa: SIM112 - its own name; dramatiq reads it at import

import dramatiq  # type: ignore[import-not-found,unused-ignore]
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found,unused-ignore]

from bench.crew_protocol import run_worker

THREADS = 8


class Worker:
    """A worker that notes its messages."""

    def __init__(self, url: str) -> None:
        self.executed: list[int] = []
        self.broker = broker_of(url)
        actor_of(self.broker, self.executed)
        self._worker = dramatiq.Worker(self.broker, worker_threads=THREADS)

    async def start(self) -> None:
        self._worker.start()

    async def stop(self) -> None:
        """Wait until everything executed is acknowledged. Its threads end later."""
        await asyncio.to_thread(self._worker.join)

    def close(self) -> None:
        self._worker.stop()


def broker_of(url: str) -> RedisBroker:  # type: ignore[no-any-unimported,unused-ignore]
    return RedisBroker(url=url, middleware=[])


def actor_of(broker: RedisBroker, executed: list[int]) -> dramatiq.Actor:  # type: ignore[no-any-unimported,unused-ignore]
    def noop(number: int) -> None:
        executed.append(number)

    return dramatiq.actor(noop, broker=broker)


def main(verb: str, url: str, number: int) -> None:
    """Run one of the verbs."""
    if verb == "work":
        worker = Worker(url)
        asyncio.run(run_worker(worker))
        worker.close()
        return
    broker = broker_of(url)
    actor = actor_of(broker, [])
    if verb == "fill":
        for one in range(number):
            actor.send(one)
        print(json.dumps(list(range(number))))
    else:
        print(json.dumps([int(broker.client.hlen("dramatiq:default.msgs"))]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
