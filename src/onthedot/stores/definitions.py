"""Job definitions as text: what every driver that writes to disk keeps of a job.

Canonical JSON: equal jobs give equal text, and `decode(encode(job)) == job`. Values that are at their default are
left out and filled in when read, so that a policy added in a later version leaves old texts readable, and equal.
"""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from typing import Any, Literal

from onthedot.after import After
from onthedot.duration import micros
from onthedot.job import CatchUp, Guarantee, Job, Json, Limit, Overlap, Rate, Retry
from onthedot.route import DEFAULT_QUEUE, PRIORITIES
from onthedot.schedules import from_json, to_json
from onthedot.stores.tasks import (
    bounds_from_json,
    bounds_to_json,
    param_from_json,
    param_to_json,
    task_from_json,
    task_to_json,
)

BUCKETS = 1024


class Unreadable(ValueError):
    """A stored definition that this version cannot have written."""


def bucket_of(job_id: int) -> int:
    """The one of 1,024 buckets that a job's schedules are planned in. The same in every process, for ever.

    >>> bucket_of(1), bucket_of(2)
    (886, 876)
    """
    return int.from_bytes(hashlib.blake2b(str(job_id).encode(), digest_size=8).digest(), "big") % BUCKETS


def hash_of(definition: str) -> str:
    """What tells two definitions apart at a glance."""
    return hashlib.sha256(definition.encode()).hexdigest()


def encode(job: Job) -> str:
    """A definition as canonical JSON."""
    data: dict[str, Json] = {
        "name": job.name,
        "task": task_to_json(job.task),
        "schedules": [to_json(schedule) for schedule in job.schedules],
        "after": _after_to_json(job.after),
        "args": dict(job.args),
        "namespace": job.namespace,
        "owner": job.owner,
        "guarantee": job.guarantee.value,
        "catch_up": _changed(_catch_up_to_json(job.catch_up), _CATCH_UP),
        "overlap": _overlap_to_json(job.overlap),
        "concurrency": _limit_to_json(job.concurrency),
        "rate": _rate_to_json(job.rate),
        "retry": _changed(_retry_to_json(job.retry), _RETRY),
        "timeout_us": None if job.timeout is None else micros(job.timeout),
        "max_recoveries": job.max_recoveries,
        "queue": job.queue,
        "priority": job.priority,
        "labels": sorted(job.labels),
        "on": job.on,
        "share": job.share,
        "assignment": job.assignment,
        "isolation": job.isolation,
        "bounds": bounds_to_json(job.bounds),
        "params": [param_to_json(param) for param in job.params],
    }
    return json.dumps(
        _changed(data, _DEFAULTS), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def decode(definition: str) -> Job:
    """The job that `encode` wrote; `Unreadable` for anything else."""
    try:
        data = _DEFAULTS | _mapping(json.loads(definition))
        return Job(
            name=data.pop("name"),
            task=task_from_json(data.pop("task")),
            schedules=tuple(from_json(schedule) for schedule in data.pop("schedules")),
            after=_after_from_json(data.pop("after")),
            args=_mapping(data.pop("args")),
            namespace=data.pop("namespace"),
            owner=data.pop("owner"),
            guarantee=Guarantee(data.pop("guarantee")),
            catch_up=_catch_up_from_json(_CATCH_UP | data.pop("catch_up")),
            overlap=_overlap_from_json(data.pop("overlap")),
            concurrency=_limit_from_json(data.pop("concurrency")),
            rate=_rate_from_json(data.pop("rate")),
            retry=_retry_from_json(_RETRY | data.pop("retry")),
            timeout=_length(data.pop("timeout_us")),
            max_recoveries=data.pop("max_recoveries"),
            queue=data.pop("queue"),
            priority=PRIORITIES[PRIORITIES.index(data.pop("priority"))],
            labels=frozenset(data.pop("labels")),
            on=data.pop("on"),
            share=data.pop("share"),
            assignment=data.pop("assignment"),
            isolation=data.pop("isolation"),
            bounds=bounds_from_json(data.pop("bounds")),
            params=tuple(param_from_json(param) for param in data.pop("params")),
            **data,  # nothing is left, or an unknown key is refused here
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Unreadable(f"expected a job definition, got {definition[:200]!r} ({error})") from error


def _after_to_json(after: After | None) -> dict[str, Json] | None:
    return None if after is None else {"parents": list(after.parents), "any": after.any, "on": after.on}


def _after_from_json(data: dict[str, Any] | None) -> After | None:
    return None if data is None else After(*data["parents"], any=data["any"], on=data["on"])


def _catch_up_to_json(policy: CatchUp) -> dict[str, Json]:
    return {"mode": policy.mode, "limit": policy.limit, "window_us": micros(policy.window)}


def _catch_up_from_json(data: dict[str, Any]) -> CatchUp:
    mode: Literal["none", "last", "all"] = data["mode"]
    return CatchUp(mode=mode, limit=data["limit"], window=timedelta(microseconds=data["window_us"]))


def _overlap_to_json(policy: Overlap | None) -> dict[str, Json] | None:
    if policy is None:
        return None
    data: dict[str, Json] = {"mode": policy.mode}
    if policy.mode == "wait":
        data["max_waiting"] = policy.max_waiting
    if policy.max_running is not None:
        data["max_running"] = policy.max_running
    return data


def _overlap_from_json(data: dict[str, Any] | None) -> Overlap | None:
    return None if data is None else Overlap(**data)


def _limit_to_json(policy: Limit | None) -> dict[str, Json] | None:
    return None if policy is None else {"most": policy.most, "key": policy.key, "name": policy.name}


def _limit_from_json(data: dict[str, Any] | None) -> Limit | None:
    return None if data is None else Limit(**data)


def _rate_to_json(policy: Rate | None) -> dict[str, Json] | None:
    if policy is None:
        return None
    data = {"most": policy.most, "per_us": micros(policy.per), "burst": policy.burst}
    return {**data, "key": policy.key, "name": policy.name}


def _rate_from_json(data: dict[str, Any] | None) -> Rate | None:
    return None if data is None else Rate(per=timedelta(microseconds=data.pop("per_us")), **data)


def _retry_to_json(policy: Retry) -> dict[str, Json]:
    return {
        "attempts": policy.attempts,
        "backoff": policy.backoff,
        "delay_us": micros(policy.delay),
        "max_delay_us": micros(policy.max_delay),
        "jitter": policy.jitter,
        "on": list(policy.on),
        "on_timeout": policy.on_timeout,
        "when": str(policy.when),
    }


def _retry_from_json(data: dict[str, Any]) -> Retry:
    return Retry(
        attempts=data["attempts"],
        backoff=data["backoff"],
        delay=timedelta(microseconds=data["delay_us"]),
        max_delay=timedelta(microseconds=data["max_delay_us"]),
        jitter=data["jitter"],
        on=tuple(data["on"]),
        on_timeout=data["on_timeout"],
        when=data["when"],
    )


def _changed(data: dict[str, Json], defaults: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in data.items() if key not in defaults or value != defaults[key]}


def _length(value: int | None) -> timedelta | None:
    return None if value is None else timedelta(microseconds=value)


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"expected a mapping, got {type(value).__name__}")
    return value


_CATCH_UP = _catch_up_to_json(CatchUp())
_RETRY = _retry_to_json(Retry())
_DEFAULTS: dict[str, Json] = {
    "schedules": [],
    "after": None,
    "args": {},
    "namespace": "default",
    "owner": "",
    "guarantee": Guarantee.AT_LEAST_ONCE.value,
    "catch_up": {},
    "overlap": None,
    "concurrency": None,
    "rate": None,
    "retry": {},
    "timeout_us": None,
    "max_recoveries": 3,
    "queue": DEFAULT_QUEUE,
    "priority": "normal",
    "labels": [],
    "on": "any",
    "share": "",
    "assignment": "worker",
    "isolation": "none",
    "bounds": {},
    "params": [],
}
