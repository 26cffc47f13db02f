"""The tables in docs/operate: permissions, alerts, reasons for waiting, messages and URL options match the code."""

from __future__ import annotations

import re
from pathlib import Path

from ruamel.yaml import YAML

from onthedot.access.permissions import Permission, Role
from onthedot.stores.postgres.connections import OURS as POSTGRES_OPTIONS

ROOT = Path(__file__).parents[2]
OPERATE = ROOT / "docs" / "operate"
SOURCE = ROOT / "src" / "onthedot"


def section(page: str, heading: str) -> str:
    [text] = re.findall(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", (OPERATE / page).read_text(), re.MULTILINE | re.DOTALL
    )
    return str(text)


def first_cells(page: str, heading: str) -> list[str]:
    """The first cells of the tables in a section, without the headers."""
    tables = re.findall(r"^\|[-:| ]+\|\n((?:\|.*\n)+)", section(page, heading), re.MULTILINE)
    return [row.split("|")[1].strip() for table in tables for row in table.splitlines()]


def ticked(cells: list[str]) -> list[str]:
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_every_permission_and_role_is_listed():
    assert sorted(ticked(first_cells("access.md", "Permissions"))) == sorted(Permission)
    assert set(ticked(first_cells("access.md", "Roles"))) >= set(Role)


def test_every_alert_is_listed():
    rules = YAML(typ="safe").load((OPERATE / "prometheus-rules.yaml").read_text())
    alerts = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    assert ticked(first_cells("metrics.md", "Alerts")) == alerts


def test_every_listed_reason_for_waiting_exists():
    words = (SOURCE / "rules" / "why_waiting.py").read_text()
    reasons = ticked(first_cells("troubleshooting.md", "It waits"))
    assert len(reasons) > 10
    for reason in reasons:
        start = re.split(r" …|'| \d|, which lets| to serve", reason)[0].strip()
        assert start in words.replace("{where} ", "a living worker to "), reason


def test_every_listed_message_of_a_store_exists():
    stores = "".join(path.read_text() for path in (SOURCE / "stores").rglob("*.py"))
    messages = ticked(first_cells("troubleshooting.md", "The store is away"))
    assert len(messages) > 5
    assert [message for message in messages if message not in stores] == []


def test_every_option_of_a_postgresql_url_is_listed():
    listed = {name.partition("=")[0] for name in ticked(first_cells("postgresql.md", "The URL"))}
    assert set(POSTGRES_OPTIONS) <= listed
