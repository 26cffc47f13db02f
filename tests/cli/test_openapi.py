"""`onthedot openapi`: the document is complete, valid, and readable by linters and client generators."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import jsonschema_rs
import pytest

import onthedot.server
from onthedot.define.schema import job_schema
from onthedot.server.permissions import ROUTE_PERMISSIONS
from tests.cli.conftest import Call


@pytest.fixture
def document(call: Call) -> dict[str, Any]:
    result = call("openapi")
    assert result.exit_code == 0
    found: dict[str, Any] = json.loads(result.output)
    return found


PAGE = ("GET /", "GET /style.css", "GET /docs", "GET /openapi.json")  # routes that are not in the document


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_the_document_has_all_routes_with_their_permissions(document: dict[str, Any]):
    found = {line: operation.get("x-permission") for line, operation in operations(document)}
    assert found == {
        line.replace(":path}", "}"): None if permission is None else str(permission)
        for line, permission in ROUTE_PERMISSIONS.items()
        if line not in PAGE
    }
    assert document["paths"]["/api/v1/health"]["get"]["security"] == []


def test_every_operation_has_a_unique_id_and_a_description(document: dict[str, Any]):
    ids = [operation["operationId"] for _, operation in operations(document)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[a-z_]+", one) for one in ids)
    assert [line for line, operation in operations(document) if not operation.get("description")] == []


def test_every_operation_has_a_title_a_declared_tag_and_answers_with_schemas(document: dict[str, Any]):
    declared = [tag["name"] for tag in document["tags"]]
    assert all(tag["description"] for tag in document["tags"])
    used = {line: operation["tags"] for line, operation in operations(document)}
    assert {tag for tags in used.values() for tag in tags} == set(declared)
    assert len(set(declared)) == len(declared)
    for line, operation in operations(document):
        assert operation["summary"], line
        for status, answer in operation["responses"].items():
            contents = answer.get("content", {})
            assert contents or status in ("204", "304"), (line, status)
            assert all("schema" in content for content in contents.values()), (line, status)


def test_the_document_has_a_server_a_license_and_a_contact(document: dict[str, Any]):
    assert document["servers"] == [{"url": "/", "description": "The server of this document."}]
    assert document["info"]["license"]["identifier"] == "Apache-2.0"
    assert document["info"]["contact"]


def test_client_generators_can_read_every_schema(document: dict[str, Any]):
    """Generators do not understand boolean schemas, other constants than text, branches of objects, and null bodies."""
    for path, schema in schemas_in(document, ()):
        assert isinstance(schema, dict), path
        assert "const" not in schema or isinstance(schema["const"], str), path
        assert not ({"oneOf", "anyOf"} & schema.keys() and "properties" in schema), path
    for line, operation in operations(document):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            assert {"type": "null"} not in content["schema"].get("anyOf", []), line


VALUES: dict[str, Any] = {
    "run": "true", "argv": ["true"], "command": "true", "steps": [{"run": "true"}], "call": "report", "sleep": "1s",
    "noop": True, "http": "https://example.org", "container": "busybox", "url": "https://example.org/a", "stdin": "",
    "source": "https://example.org/a.git", "artifacts": [], "format": "shell", "env": {}, "shell": True, "ref": "main",
}  # fmt: skip


def test_a_body_is_as_strict_as_the_schema_for_editors(document: dict[str, Any]):
    """The two schemas state in different ways which keys exclude each other. They must agree on all pairs of keys."""
    ours = jsonschema_rs.validator_for(job_schema())
    theirs = jsonschema_rs.validator_for({**document, "$ref": "#/components/schemas/written.job"})
    valid = 0
    for keys in [(), *((key,) for key in VALUES), *combinations(VALUES, 2)]:
        job = {"name": "one", **{key: VALUES[key] for key in keys}}
        assert ours.is_valid(job) == theirs.is_valid(job), keys
        valid += ours.is_valid(job)
    assert valid > len(VALUES), "some pairs must be valid"
    for step in ({}, {"run": "a"}, {"run": "a", "argv": ["a"]}, {"argv": ["a"]}, {"name": "a"}):
        job = {"name": "one", "steps": [step]}
        assert ours.is_valid(job) == theirs.is_valid(job), step
    assert not theirs.is_valid({"name": "one", "noop": False})


def schemas_in(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value at a place of a schema, with its path."""
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from schemas_in(one, (*path, str(number)))
    elif isinstance(value, dict):
        for word, one in value.items():
            if word in ("examples", "example", "default", "enum"):
                continue
            if word in ("properties", "schemas", "dependentSchemas", "patternProperties"):
                yield from (((*path, word, name), schema) for name, schema in one.items())
            elif word in ("schema", "items", "not", "propertyNames"):
                yield (*path, word), one
            elif word in ("anyOf", "oneOf", "allOf"):
                yield from (((*path, word, str(number)), schema) for number, schema in enumerate(one))
            yield from schemas_in(one, (*path, word))


def test_every_reference_exists(document: dict[str, Any]):
    text = json.dumps(document)
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(re.findall(r'"\$ref": "([^"]+)"', text)) <= known


def test_bodies_have_examples(document: dict[str, Any]):
    schemas = document["components"]["schemas"]
    without = []
    for line, operation in operations(document):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            named = re.findall(r"#/components/schemas/([\w.-]+)", json.dumps(content["schema"]))
            schema = [content["schema"], *(schemas[name] for name in named)]
            if not ({"examples", "example"} & content.keys() or '"examples"' in json.dumps(schema)):
                without.append(line)
    assert without == []


@pytest.mark.slow
def test_the_document_is_the_same_every_time(call: Call, document: dict[str, Any]):
    assert json.loads(call("openapi").output) == document


def test_without_the_server_the_error_names_the_extra(call: Call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    monkeypatch.setattr(onthedot, "server", onthedot.server)  # the package that is imported meanwhile is not kept
    for name in [name for name in sys.modules if name.startswith("onthedot.server")]:
        monkeypatch.delitem(sys.modules, name)
    result = call("openapi")
    assert result.exit_code == 2
    assert "onthedot[server]" in result.output
