"""A web application without an event loop, on the WSGI server of the standard library.

Flask, Django and other WSGI frameworks work in the same way. Start the scheduler once in each process, after the server
has forked, and stop it when the process ends.
"""

import atexit
import json
import threading
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import onthedot as otd

sched = otd.Scheduler("sqlite:///wsgi.db")
blocking = otd.BlockingScheduler(sched)


@sched.job(queue="default")
def send_receipt(order: int) -> dict[str, object]:
    return {"order": order, "sent": True}


def application(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """`POST /orders/7` submits a receipt, and answers when it was sent."""
    order = int(environ["PATH_INFO"].rpartition("/")[2])
    run = blocking.submit(send_receipt.call(order=order), key=f"receipt:{order}", expires="1h")
    answer = {"run": run.id, "new": run.created, "result": blocking.result(run, timeout="30s")}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...


if __name__ == "__main__":
    blocking.start()
    atexit.register(blocking.stop)
    with make_server("127.0.0.1", 0, application, handler_class=Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for _ in range(2):
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/orders/7", data=b"") as response:
                print(response.read().decode())
        server.shutdown()
# prints: {"run": 1, "new": true, "result": {"order": 7, "sent": true}}
# prints: {"run": 1, "new": false, "result": {"order": 7, "sent": true}}
