"""What HTTP jobs send, and what follows from redirects and wishes."""

import pytest

from onthedot.clock import SECOND
from onthedot.model.addresses import AddressRefused
from onthedot.model.task import Http
from onthedot.runners.http_rules import first_request, idempotency_key, redirected, wished_for
from tests.runners.attempts import lease_of

JOB = Http(
    url="https://shop.example/pay",
    method="POST",
    headers={"Authorization": "Bearer t", "X-Api-Key": "k", "Accept": "text/plain"},
    body={"n": 1},
)


def test_a_request_says_which_run_it_is():
    request = first_request(JOB, lease_of(JOB, run_id=7, attempt=2, fence=42))
    headers = dict(request.headers)
    assert (headers["onthedot-run-id"], headers["onthedot-attempt"], headers["onthedot-fence"]) == ("7", "2", "42")
    assert (headers["content-type"], headers["authorization"], headers["accept"], request.body) == (
        "application/json", "Bearer t", "text/plain", b'{"n": 1}',
    )  # fmt: skip


def test_all_attempts_of_a_run_have_one_key_and_no_other_run_has_it():
    keys = {idempotency_key(lease_of(JOB, attempt=attempt, fence=attempt)) for attempt in (1, 2, 3)}
    assert len(keys) == 1
    assert keys.isdisjoint({idempotency_key(lease_of(JOB, run_id=8))})


def test_a_job_may_bring_its_own_key_but_not_another_fence():
    task = Http(url="http://x", headers={"Idempotency-Key": "mine", "Onthedot-Fence": "999"})
    headers = dict(first_request(task, lease_of(task)).headers)
    assert (headers["idempotency-key"], headers["onthedot-fence"]) == ("mine", "42")


@pytest.mark.parametrize("value", ["a\r\nB: c", "a\x00", "snow☃"])
def test_a_header_that_is_no_header_is_refused_without_its_value(value: str):
    task = Http(url="http://x", headers={"X-Token": value})
    with pytest.raises(AddressRefused, match="header x-token: expected one line") as refused:
        first_request(task, lease_of(task))
    assert value not in str(refused.value)


@pytest.mark.parametrize(
    ("method", "status", "then"),
    [
        ("POST", 301, "GET"), ("POST", 302, "GET"), ("POST", 303, "GET"), ("PUT", 303, "GET"), ("PUT", 302, "PUT"),
        ("POST", 307, "POST"), ("POST", 308, "POST"), ("HEAD", 303, "HEAD"), ("GET", 301, "GET"),
    ],
)  # fmt: skip
def test_what_a_redirect_makes_of_the_method(method: str, status: int, then: str):
    task = Http(url="https://shop.example/a", method=method, body={"n": 1})
    request = redirected(first_request(task, lease_of(task)), status, "/b")
    assert (request.method, request.target.path) == (then, "/b")
    assert (request.body is None) == (then == "GET" != method)


def test_another_origin_is_not_told_what_was_meant_for_the_first():
    request = first_request(JOB, lease_of(JOB))
    for elsewhere in ("https://evil.example/", "https://shop.example:444/", "//evil.example/x"):
        headers = dict(redirected(request, 307, elsewhere).headers)
        assert not {"authorization", "x-api-key"} & set(headers)
        assert headers["onthedot-run-id"] == "7"
    same = dict(redirected(request, 307, "https://SHOP.example:443/other").headers)
    assert same["authorization"] == "Bearer t"


@pytest.mark.parametrize(
    "location",
    ["http://shop.example/", "file:///etc/passwd", "https://a:b@evil.example/", "https://0x7f.1/", "https://["],
)
def test_redirects_that_are_not_followed(location: str):
    with pytest.raises(AddressRefused):
        redirected(first_request(JOB, lease_of(JOB)), 302, location)


@pytest.mark.parametrize(
    ("status", "text", "seconds"),
    [
        (429, "120", 1120), (503, " 5 ", 1005), (429, "0", 1000), (503, "Thu, 01 Jan 1970 00:30:00 GMT", 1800),
        (500, "5", 0), (429, None, 0), (429, "", 0), (429, "soon", 0), (429, "-5", 0), (429, "9" * 30, 0),
        (429, "Thu, 01 Jan 99999 00:00:00 GMT", 0), (429, "1.5", 0),
    ],
)  # fmt: skip
def test_a_wish_is_read_or_is_none(status: int, text: str | None, seconds: int):
    assert wished_for(status, text, 1000 * SECOND) == seconds * SECOND
