"""Recognises what kind of file is imported, by its text and its name."""

from __future__ import annotations

import re
from typing import Literal

from onthedot.define.importers.crontab import is_time

Form = Literal["csv", "crontab", "systemd", "kubernetes"]
Seen = Literal["csv", "crontab", "systemd", "kubernetes", "jobs", "yaml", ""]

WORDS = {
    "csv": "a table",
    "crontab": "a crontab",
    "systemd": "a systemd unit",
    "kubernetes": "YAML of Kubernetes",
    "yaml": "YAML",
    "jobs": "a file of jobs already",
}
PATTERNS: dict[Form, tuple[str, ...]] = {
    "csv": ("*.csv",),
    "crontab": ("*",),
    "systemd": ("*.timer",),
    "kubernetes": ("*.yaml", "*.yml", "*.json"),
}
"""The files of a folder that are read."""

_KIND = re.compile(r"""^\s*(?:-\s+)?["']?kind["']?\s*:\s*["']?\w""", re.MULTILINE)
_JOBS = re.compile(r"""^\{?\s*["']?jobs["']?\s*:""", re.MULTILINE)
_KEY = re.compile(r"""(?:---|-\s+[\w."'-]+\s*:(?:\s|$)|["']?[A-Za-z_][\w.-]*["']?\s*:(?:\s|$)|[{\[]\s*(?:["'{]|$))""")
_SECTION = re.compile(r"\[(?:Unit|Timer|Service|Install)\]")
_VARIABLE = re.compile(r"\s*\w+\s*=")
_COLUMN = re.compile(r"\b(?:name|job_id)\b", re.IGNORECASE)


def look(text: str) -> Seen:
    """The kind of a text, by its first line that is no comment; "" if that does not tell.

    >>> look("# m h dom mon dow\\nPATH=/bin\\n0 2 * * * backup"), look("kind: CronJob"), look("[Timer]")
    ('crontab', 'kubernetes', 'systemd')
    >>> look("jobs:\\n  - name: a"), look("name,schedule\\na,@daily"), look("hello")
    ('jobs', 'csv', '')
    """
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and line[0] not in "#;" and not _VARIABLE.match(line)), "")
    if _SECTION.fullmatch(first):
        return "systemd"
    if _KEY.match(first):
        return "kubernetes" if _KIND.search(text) else "jobs" if _JOBS.search(text) else "yaml"
    if is_time(first):
        return "crontab"
    return "csv" if _COLUMN.search(first) and any(sign in first for sign in ",|;\t") else ""


def by_name(name: str) -> Form | None:
    """The kind of a file, by its name; None if that does not tell.

    >>> by_name("/etc/cron.d/php"), by_name("my.crontab"), by_name("a.timer"), by_name("a.txt")
    ('crontab', 'crontab', 'systemd', None)
    """
    parts = name.replace("\\", "/").rstrip("/").split("/")
    ending = parts[-1].rpartition(".")[2]
    if ending in ("crontab", "cron", "cronjob") or "cron.d" in parts:
        return "crontab"
    endings: dict[str, Form] = {"timer": "systemd", "service": "systemd", "csv": "csv"}
    return endings.get(ending)
