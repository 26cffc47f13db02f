"""`onthedot openapi`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import Result

from onthedot.server.table import TABLE

Call = Callable[..., Result]


@pytest.fixture
def document(call: Call) -> dict[str, Any]:
    result = call("openapi")
    assert result.exit_code == 0
    found: dict[str, Any] = json.loads(result.output)
    return found


PAGE = ("GET /", "GET /style.css", "GET /docs", "GET /openapi.json")  # for people, or the document itself


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_it_has_the_routes_of_the_table_and_what_they_take(document: dict[str, Any]):
    found = {line: operation.get("x-permission") for line, operation in operations(document)}
    assert found == {
        line.replace(":path}", "}"): None if permission is None else str(permission)
        for line, permission in TABLE.items()
        if line not in PAGE
    }
    assert document["paths"]["/api/v1/health"]["get"]["security"] == []


def test_every_operation_has_a_name_of_its_own_and_words(document: dict[str, Any]):
    ids = [operation["operationId"] for _, operation in operations(document)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[a-z_]+", one) for one in ids)
    assert [line for line, operation in operations(document) if not operation.get("description")] == []


def test_every_reference_leads_somewhere(document: dict[str, Any]):
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
def test_it_is_the_same_every_time(call: Call, document: dict[str, Any]):
    assert json.loads(call("openapi").output) == document


def test_without_the_server_it_says_what_to_install(call: Call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    for name in [name for name in sys.modules if name.startswith("onthedot.server")]:
        monkeypatch.delitem(sys.modules, name)
    result = call("openapi")
    assert result.exit_code == 2
    assert "onthedot[server]" in result.output
