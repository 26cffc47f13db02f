"""dramatiq, in the peers' environment: one process of a crew, or the one that fills and counts.

    python -m bench.dramatiq_node fill|count|work <url> <number>

`fill` makes so many messages and prints their numbers, `count` prints how many are left, `work` is a worker without
the middleware that it can do without here (time limits, retries, results …), and with the number of threads and of
messages fetched at once that were fastest here.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

os.environ["dramatiq_queue_prefetch"] = "500"  # noqa: SIM112 - its own name; read when it is imported

import dramatiq  # type: ignore[import-not-found,unused-ignore]
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found,unused-ignore]

from bench.attending import attend

THREADS = 8


class Worker:
    """A worker that notes which messages it was given."""

    def __init__(self, url: str) -> None:
        self.executed: list[int] = []
        self.broker = broker_of(url)
        actor_of(self.broker, self.executed)
        self._worker = dramatiq.Worker(self.broker, worker_threads=THREADS)

    async def start(self) -> None:
        self._worker.start()

    async def stop(self) -> None:
        """All that was executed is acknowledged. Its threads end later, and nobody waits for them."""
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
    """Do as told."""
    if verb == "work":
        worker = Worker(url)
        asyncio.run(attend(worker))
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
