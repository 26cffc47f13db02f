"""Runs the other processes of `bench.api`: a server, or clients that follow the log of a run.

    python -m bench.api_node ours <store's URL>
    python -m bench.api_node bare -
    python -m bench.api_node follow <port> <key> <run> <number of clients>

Each prints one JSON object when it is ready, and ends when its standard input is closed.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from typing import Any

import uvicorn
from fastapi import FastAPI

from bench.nodes import JOB
from onthedot.access import keys
from onthedot.access.authenticator import Authenticator
from onthedot.access.permissions import Grant, Role
from onthedot.model.job import Call, Job
from onthedot.operations.open_verbs import OpenStore, opened
from onthedot.server.app import make_app
from onthedot.server.connections import TimedProtocol
from onthedot.server.http_server import settle_memory
from onthedot.server.submissions import Submit
from onthedot.settings import Settings

UNLIMITED = Settings(api_rate=1_000_000, api_burst=1_000_000)


async def serve(app: FastAPI, ready: dict[str, Any]) -> None:
    """Serve an application like the API, until standard input is closed."""
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", http=TimedProtocol, ws="none", server_header=False,
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = uvicorn.Server(config)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1024)
        listening.setblocking(False)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        settle_memory()
        # Clients that connect before the server has started wait in the backlog.
        print(json.dumps({"port": listening.getsockname()[1], **ready}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        server.should_exit = True
        await serving


async def ours(url: str) -> None:
    """Serve the API on a store with one job, one run and one key."""
    async with opened(url, UNLIMITED) as there:
        key = await keys.issue(there.store, "bench", Grant(role=Role.ADMIN))
        authenticator = Authenticator(there.store, there.clock)
        try:
            app = make_app(there, authenticator)
            ready = {"key": key.text, "run": await _job(there)}
            try:
                await serve(app, ready)
            finally:
                app.state.followers.close()
        finally:
            await authenticator.close()


async def _job(there: OpenStore) -> int:
    await there.verbs().put(Job(name=JOB, task=Call(handler=JOB)))
    return (await there.verbs().submit(JOB)).id


async def bare() -> None:
    """Serve a bare endpoint of the same framework that only reads the body."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @app.post("/api/v1/runs", status_code=201)
    async def submit(asked: Submit) -> dict[str, Any]:
        return {"run_id": len(asked.job), "created": True}

    await serve(app, {"key": "", "run": 0})


async def follow(port: int, key: str, run: int, count: int) -> None:
    """Follow a run with `count` clients. The first one never reads."""
    head = f"GET /api/v1/runs/{run}/logs/follow HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
    readers = [asyncio.create_task(_read(port, head, frozen=number == 0)) for number in range(count)]
    await asyncio.sleep(0.5)
    print(json.dumps({"following": sum(not reader.done() for reader in readers)}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)


async def _read(port: int, head: bytes, *, frozen: bool) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    try:
        writer.write(head)
        await writer.drain()
        if frozen:
            await asyncio.Event().wait()
        while await reader.read(65_536):
            continue
    finally:
        writer.close()


def main(kind: str, *rest: str) -> None:
    """Run one of the processes."""
    if kind == "ours":
        asyncio.run(ours(rest[0]))
    elif kind == "bare":
        asyncio.run(bare())
    else:
        asyncio.run(follow(int(rest[0]), rest[1], int(rest[2]), int(rest[3])))


if __name__ == "__main__":
    main(*sys.argv[1:])
