"""One real node with the hostile jobs and four jobs that tick: `python -m tests.hostile.node FOLDER PORT`.

It reads commands from its standard input and answers on its standard output, one JSON line each. Each tick records when
it began. The tests judge by these records, not by what the scheduler reports.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import onthedot as otd
from onthedot.clock import MILLISECOND, SECOND, SystemClock, to_micros
from onthedot.model.errors import RunFailed
from onthedot.runners.context import Context
from onthedot.settings import Settings
from tests.hostile.corpus import CORPUS

PERIOD = 100 * MILLISECOND
TICKERS = 4
"""Jobs that tick, evenly spread: one of them every 25 ms."""
GRACE = 500 * MILLISECOND
PATIENCE = "60s"
HOLDER = "holds-a-note"


def program(folder: Path, port: str) -> otd.Scheduler:
    settings = Settings(
        node_id="hostile", kill_after=GRACE, spool=str(folder / "spool"), output=str(folder / "output"), programs=True
    )
    sched = otd.Scheduler(f"sqlite:///{folder}/store.db", settings=settings)
    journal = (folder / "ticks").open("a", buffering=1)
    clock = SystemClock()

    async def tick(ctx: Context) -> None:
        began = clock.now()
        journal.write(f"{to_micros(ctx.scheduled_at)} {began}\n")

    for number in range(TICKERS):
        anchor = datetime(2020, 1, 1, tzinfo=UTC) + number * timedelta(microseconds=PERIOD // TICKERS)
        sched.job(name=f"tick-{number}", schedule=otd.every("100ms", anchor=anchor), overlap="allow")(tick)
    for hostile in CORPUS:
        words = [word.replace("{store}", f"{folder}/store.db").replace("{port}", port) for word in hostile.words]
        sched.command(hostile.name, words, isolation=hostile.level, **hostile.options)
    sched.command(HOLDER, script="echo private > note; sleep 300", isolation="user")
    return sched


async def run(sched: otd.Scheduler, job: str, seconds: float, args: dict[str, Any] | None) -> dict[str, Any]:
    """Run a job again and again for this long. Returns how its runs ended, and the log of the last one."""
    clock, log = SystemClock(), ""
    runs: list[dict[str, Any]] = []
    began = clock.now()
    while not runs or clock.now() < began + round(seconds * SECOND):
        made = await sched.submit(job, args)
        try:
            await made.result(timeout=PATIENCE)
            error = ""
        except RunFailed as failed:
            error = failed.error or ""
        took = sum((one.ended_at or 0) - (one.started_at or 0) for one in await sched.history(made.id))
        runs.append({"error": error, "took": took / SECOND})
        log = "".join(record.text for record in await sched.logs(made.id))
    return {"began": began, "ended": clock.now(), "runs": runs, "log": log}


async def main(folder: Path, port: str) -> None:
    sched = program(folder, port)
    loop, asked = asyncio.get_running_loop(), asyncio.Queue[str]()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(asked.put_nowait, line)

    threading.Thread(target=read, daemon=True).start()
    async with sched:
        print("ready", flush=True)
        while (question := json.loads(await asked.get())) != "stop":
            answer: Any = None
            match question:
                case {"run": job, "seconds": seconds}:
                    answer = await run(sched, job, seconds, question.get("args"))
                case {"submit": job}:
                    answer = (await sched.submit(job)).id
                case {"cancel": run_id}:
                    answer = str(await sched.cancel(run_id))
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
