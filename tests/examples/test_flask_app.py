"""The Flask example: requests in many threads share one event loop thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.examples.loading import load


@pytest.fixture
def example(tmp_path, monkeypatch):
    loaded = load("flask_app", tmp_path, monkeypatch)
    with loaded.blocking:
        yield loaded


def test_requests_in_many_threads_each_get_their_answer(example):
    def order(number: int) -> tuple[int, object]:
        client = example.app.test_client()
        asked = client.post(f"/orders/{number}/receipt")
        return asked.status_code, client.get(f"/receipts/{asked.get_json()['run']}").get_json()

    with ThreadPoolExecutor(8) as requests:
        answers = list(requests.map(order, range(20)))
    assert answers == [(202, {"result": {"sent": number}}) for number in range(20)]


def test_repeated_requests_for_an_order_give_one_receipt(example):
    client = example.app.test_client()
    first, again = (client.post("/orders/7/receipt").get_json() for _ in range(2))
    assert (first["new"], again["new"]) == (True, False)
    assert first["run"] == again["run"]
    assert client.get("/receipts/99").status_code == 404
