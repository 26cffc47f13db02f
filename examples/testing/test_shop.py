"""Tests the jobs of the shop on a virtual clock. Run it with `pytest`; you need no other plugin."""

import pytest
import shop


@pytest.fixture(autouse=True)
def mail(monkeypatch):
    """An empty mail box, and a mail server that works."""
    monkeypatch.setattr(shop, "mails", [])
    monkeypatch.setattr(shop.server, "up", True)


async def test_the_report_comes_once_on_the_night_when_clocks_go_forward(otd_harness):
    h = await otd_harness(shop.sched, at="2026-03-28T12:00+01:00")
    await h.advance("3 days")
    starts = [f"{start:%a %H:%M}" for start in h.starts("nightly_report", tz="Europe/Berlin")]
    assert starts == ["Sun 03:00", "Mon 02:30", "Tue 02:30"]
    assert all(run.state == "succeeded" for run in await h.runs("nightly_report"))


async def test_an_order_gets_one_receipt(otd_harness):
    h = await otd_harness(shop.sched)
    await shop.place_order(7)
    await shop.place_order(7)
    [run] = await h.work_once()
    assert run.state == "succeeded"
    assert shop.mails == ["receipt 7"]


async def test_a_receipt_is_tried_four_times_and_then_lies_in_the_dead_letter_box(otd_harness):
    shop.server.up = False
    h = await otd_harness(shop.sched, at="2026-06-01T12:00Z")
    await shop.place_order(7)
    await h.advance("1h")
    assert [f"{start:%H:%M}" for start in h.starts(shop.send_receipt)] == ["12:00", "12:01", "12:03", "12:07"]
    [run] = await h.runs(shop.send_receipt, state="dead")
    assert run.error == "ConnectionError: the mail server is away"


async def test_a_report_that_was_missed_is_sent_when_the_node_is_back(otd_harness):
    h = await otd_harness(shop.sched, at="2026-06-01T12:00+02:00")
    await h.crash()
    await h.advance_to("2026-06-03T09:00+02:00")
    await h.restart()
    await h.advance("1m")
    assert shop.mails == ["report of 2026-06-03"]
    [missed] = await h.skips("nightly_report")
    assert (missed.count, missed.reason) == (1, "missed")


async def test_a_lost_answer_sends_no_second_receipt(otd_harness):
    h = await otd_harness(shop.sched)
    h.lose_answer("finish")
    run = await shop.place_order(7)
    await h.advance("10s")
    assert shop.mails == ["receipt 7"]
    assert await shop.sched.result(run) == {"order": 7}
