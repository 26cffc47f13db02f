"""HTTP calls and containers that cannot work are refused when they are defined, with every reason."""

import pytest

from onthedot.define.check import check_job
from onthedot.model.errors import DefinitionError
from onthedot.model.job import Job
from onthedot.model.task import Container, Http, Mount, Task

GOOD: list[Task] = [
    Http(url="https://example.com/hook?x=1"),
    Http(url="http://10.0.0.1/", method="POST", headers={"X-A": "${{ secrets.A }}"}, body={"n": 1}, expect=(200, 404)),
    Http(url="https://bücher.example/", method="DELETE"),
    Container(image="alpine:3"),
    Container(
        image="registry.example:5000/a/b@sha256:" + "0" * 64,
        argv=("sh", "-c", "echo $A\ntrue"), env={"A": "b"}, network="bridge", user="1000:1000",
        mounts=(Mount(source="/data", target="/data"), Mount(source="/out", target="/out", writable=True)),
    ),
]  # fmt: skip

BAD: list[tuple[Task, str]] = [
    (Http(url="ftp://example.com"), "url: expected a URL with http or https"),
    (Http(url="https://u:p@example.com"), "url: expected a URL without a user name"),
    (Http(url="https://0x7f.1/"), "url: expected an address"),
    (Http(url="http://x", method="get"), "method: expected one of GET"),
    (Http(url="http://x", method="CONNECT"), "method: expected one of GET"),
    (Http(url="http://x", headers={"a b": "c"}), "headers: expected names"),
    (Http(url="http://x", headers={"A": "b\r\nC: d"}), "headers: expected one line of text for A"),
    (Http(url="http://x", headers={"Host": "y"}), "headers: expected none that is set"),
    (Http(url="http://x", headers={"Onthedot-Fence": "1"}), "headers: expected none that is set"),
    (Http(url="http://x", headers={"A": "1", "a": "2"}), "headers: expected each name once"),
    (Http(url="http://x", headers={f"A{n}": "" for n in range(101)}), "headers: expected at most 100"),
    (Http(url="http://x", body=1), "body: expected none with GET"),
    (Http(url="http://x", method="POST", body=float("nan")), "body: expected JSON"),
    (Http(url="http://x", method="POST", body={1, 2}), "body: expected JSON"),
    (Http(url="http://x", method="POST", body="x" * 300_000), "body: expected at most"),
    (Http(url="http://x", expect=(99,)), "expect: expected statuses"),
    (Http(url="http://x", expect=(True,)), "expect: expected statuses"),
    (Container(image=""), "image: expected"),
    (Container(image="--privileged"), "image: expected"),
    (Container(image="a b"), "image: expected"),
    (Container(image="a", network="host"), "network: expected"),
    (Container(image="a", network="container:abc"), "network: expected"),
    (Container(image="a", network=""), "network: expected"),
    (Container(image="a", user="root; rm"), "user: expected"),
    (Container(image="a", argv=("a\0b",)), "argv: expected"),
    (Container(image="a", env={"A=B": "c"}), "env: expected"),
    (Container(image="a", env={"A": "b\nC=d"}), "env: expected"),
    (Container(image="a", mounts=(Mount(source="data", target="/x"),)), "mounts.source: expected"),
    (Container(image="a", mounts=(Mount(source="/a/../etc", target="/x"),)), "mounts.source: expected"),
    (Container(image="a", mounts=(Mount(source="/a", target="/"),)), "mounts.target: expected"),
    (Container(image="a", mounts=(Mount(source="/a", target="/x"), Mount(source="/b", target="/x"))), "target once"),
]


@pytest.mark.parametrize("task", GOOD, ids=str)
def test_what_can_work_is_taken(task: Task):
    check_job(Job(name="j", task=task))


@pytest.mark.parametrize(("task", "words"), BAD, ids=lambda value: value if isinstance(value, str) else "")
def test_what_cannot_work_is_refused(task: Task, words: str):
    with pytest.raises(DefinitionError) as refused:
        check_job(Job(name="j", task=task))
    assert words in str(refused.value)


def test_every_reason_is_told_at_once():
    with pytest.raises(DefinitionError) as refused:
        check_job(Job(name="j", task=Http(url="x", method="y", expect=(1,))))
    assert len(refused.value.problems) == 3
