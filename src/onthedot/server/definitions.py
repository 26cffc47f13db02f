"""Reads and writes the body of a job, applies patches to it, and describes it as a schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import Body
from pydantic import JsonValue, WithJsonSchema

from onthedot.define.job_reader import read_job
from onthedot.define.job_writer import written
from onthedot.define.schema import definitions
from onthedot.model.job import Job

JobBody = dict[str, JsonValue]

EXAMPLE: JobBody = {
    "name": "nightly_report",
    "schedule": {"cron": "30 2 * * *", "tz": "Europe/Berlin"},
    "call": "report",
    "args": {"region": "eu"},
    "timeout": "20m",
    "retry": {"attempts": 3},
}
_AT = "#/components/schemas/"
_PREFIX = "written."
_NAMED = {"name", "namespace"}


Definition = Annotated[
    JobBody,
    WithJsonSchema({"$ref": f"{_AT}{_PREFIX}job"}),
    Body(description="A job, as a file says it.", openapi_examples={"a job": {"value": EXAMPLE}}),
]
Named = Annotated[
    JobBody,
    WithJsonSchema({"$ref": f"{_AT}{_PREFIX}named_job"}),
    Body(
        description="A job, as a file says it; its name is in the address.",
        openapi_examples={"a job": {"value": {name: one for name, one in EXAMPLE.items() if name not in _NAMED}}},
    ),
]
Patch = Annotated[
    JobBody,
    Body(
        description="What is to be another: a JSON merge patch (RFC 7396); null takes an option out.",
        openapi_examples={"a patch": {"value": {"timeout": "30m", "retry": None}}},
    ),
]


def definition_of(job: Job) -> dict[str, Any]:
    """A job as a body, which can be sent back."""
    return dict(written(job))


def read_definition(data: JobBody) -> Job:
    """Read the job of a body; `DefinitionError` with every problem in it."""
    return read_job(data)


def components() -> dict[str, Any]:
    """The schemas of bodies, by their names in the OpenAPI document.

    >>> sorted(components())[:2]
    ['written.args', 'written.delay']
    """
    found = {name: without_branches(schema) for name, schema in definitions(f"{_AT}{_PREFIX}").items()}
    whole = found["job"]
    found["named_job"] = {
        **whole,
        "properties": {name: one for name, one in whole["properties"].items() if name not in _NAMED},
        "required": [name for name in whole.get("required", ()) if name not in _NAMED],
    }
    return {f"{_PREFIX}{name}": schema for name, schema in found.items()}


def without_branches(schema: dict[str, Any]) -> dict[str, Any]:
    """Write "exactly one of these keys, each without some others" without `oneOf`. Client generators make a type of
    each branch of `oneOf`, and lose the shared properties.

    >>> one = {"type": "object", "properties": {"run": {}, "argv": {}}}
    >>> plain = without_branches({**one, "oneOf": [{"required": ["run"]}, {"required": ["argv"]}]})
    >>> plain["dependentSchemas"]["run"], plain["not"]
    ({'propertyNames': {'not': {'enum': ['argv']}}}, {'propertyNames': {'not': {'enum': ['run', 'argv']}}})
    """
    branches = {branch["required"][0]: branch.get("properties", {}) for branch in schema.get("oneOf", ())}
    if not branches:
        return schema
    clashing = {
        key: _none_of(dict.fromkeys([*(other for other in branches if other != key), *forbidden]))
        for key, forbidden in branches.items()
    }
    rest = {word: one for word, one in schema.items() if word != "oneOf"}
    dependent = {**schema.get("dependentSchemas", {}), **clashing}
    return {**rest, "dependentSchemas": dependent, "not": _none_of(branches)}


def _none_of(keys: Iterable[str]) -> dict[str, Any]:
    """An object without any of these keys."""
    return {"propertyNames": {"not": {"enum": list(keys)}}}


def patched(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396).

    >>> patched({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None}, "d": [4]})
    {'a': {'c': 2}, 'd': [4]}
    """
    if not isinstance(patch, dict):
        return patch
    made = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = patched(made.get(name), value)
    return made
