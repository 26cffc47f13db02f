"""FastAPI: the scheduler lives as long as the application, and on its event loop.

Serve it with any ASGI server (`uvicorn fastapi_app:app`). `python fastapi_app.py` sends it some requests and ends.
When the server stops, the lifespan ends: the scheduler takes no new work, finishes running reports, and closes.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException

import onthedot as otd

sched = otd.Scheduler("sqlite:///fastapi.db")


@sched.job(retry=otd.Retry(3, on=(ConnectionError,)), timeout="5m")
async def report(region: str) -> dict[str, str]:
    await asyncio.sleep(0.2)  # a coroutine shares the event loop with your routes
    return {"report": f"all is well in {region}"}


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with sched:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/reports/{region}", status_code=202)
async def ask_for_report(region: str) -> dict[str, int | bool]:
    """Submit a report. The key makes it one run, even if two requests reach two processes."""
    run = await sched.submit(report.call(region=region), key=f"report:{region}")
    return {"run": run.id, "new": run.created}


@app.get("/reports/{run_id}")
async def get_report(run_id: int) -> object:
    try:
        return await sched.result(run_id, timeout="10s")
    except TimeoutError:
        raise HTTPException(503, "not ready yet; ask again") from None
    except otd.UnknownRun:
        raise HTTPException(404, "there is no such report") from None
    except otd.RunFailed as failed:
        raise HTTPException(502, str(failed)) from None


if __name__ == "__main__":
    from fastapi.testclient import TestClient

    with TestClient(app) as client:
        print(client.post("/reports/eu").json())
        print(client.post("/reports/eu").json())
        print(client.get("/reports/1").json())
        print(client.get("/reports/99").status_code)
        client.post("/reports/us")
    print("stopped")
# prints: {'run': 1, 'new': True}
# prints: {'run': 1, 'new': False}
# prints: {'report': 'all is well in eu'}
# prints: 404
# prints: stopped
