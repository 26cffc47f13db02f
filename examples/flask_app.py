"""Flask: `BlockingScheduler` has the same methods, and each returns when it is done.

One `BlockingScheduler` in each process serves the threads of all requests. `python flask_app.py` sends some requests
and ends. If your server forks, call `start` in each of its processes: with gunicorn in the hook `post_worker_init`.
"""

import atexit
from concurrent.futures import ThreadPoolExecutor

from flask import Flask, Response, jsonify

import onthedot as otd

sched = otd.Scheduler("sqlite:///flask.db")
blocking = otd.BlockingScheduler(sched)
app = Flask(__name__)


@sched.job(queue="default", rate=otd.Rate(100, "1s", burst=10))
def send_receipt(order: int) -> dict[str, int]:  # plain functions run in threads
    return {"sent": order}


@app.post("/orders/<int:order>/receipt")
def ask_for_receipt(order: int) -> tuple[Response, int]:
    run = blocking.submit(send_receipt.call(order=order), key=f"receipt:{order}", expires="1h")
    return jsonify(run=run.id, new=run.created), 202


@app.get("/receipts/<int:run_id>")
def get_receipt(run_id: int) -> tuple[Response, int]:
    try:
        return jsonify(result=blocking.result(run_id, timeout="10s")), 200
    except TimeoutError:
        return jsonify(error="not sent yet; ask again"), 503
    except otd.UnknownRun:
        return jsonify(error="there is no such receipt"), 404


def start() -> None:
    """Call it once in each process that serves, after the fork."""
    blocking.start()
    atexit.register(blocking.stop)


if __name__ == "__main__":
    start()

    def order(number: int) -> object:
        client = app.test_client()
        run = client.post(f"/orders/{number}/receipt").get_json()["run"]
        return client.get(f"/receipts/{run}").get_json()

    with ThreadPoolExecutor(4) as requests:
        print(list(requests.map(order, [7, 8, 9])))
    print(app.test_client().post("/orders/7/receipt").get_json()["new"])
    print(app.test_client().get("/receipts/99").status)
# prints: [{'result': {'sent': 7}}, {'result': {'sent': 8}}, {'result': {'sent': 9}}]
# prints: False
# prints: 404 NOT FOUND
