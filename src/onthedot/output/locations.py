"""Reads the settings `output` and `spool`: where output is kept, and where it waits until then.

    output = ""                                              below $XDG_STATE_HOME/onthedot/output (~/.local/state/…)
    output = "/srv/onthedot"                                 a directory
    output = "s3://bucket/prefix?endpoint=…&region=…"        S3; keys come from the environment, as for AWS tools

Each store has a folder of its own. By default the folder's name comes from the store's address. In a location that the
setting names, it is an id that the store holds (`output_owner.py`). A store in memory keeps its output in memory,
unless the setting names a location.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from onthedot.model.errors import DefinitionError, did_you_mean
from onthedot.stores.addresses import shown_url
from onthedot.stores.connect import sqlite_path

_OPTIONS = ("endpoint", "region")
_STORES_APART = ("schema", "prefix")  # options of stores' URLs: several stores may be in one database


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket in S3, and a prefix in it. It holds no keys, so that its text shows none."""

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


Location = Bucket | Path | None
"""A bucket, a directory, or None: in memory."""


def output_location(setting: str, store: str | None, folder: str = "") -> Location:
    """Return the location that the setting `output` names, for the store at this URL (None: it has no address).
    `folder` is the store's own folder (`output_owner.py`). It is used if the setting names a location, because other
    stores may share that.

    >>> str(output_location("s3://logs/nightly?region=eu-central-1", None, "c0ffee"))
    's3://logs/nightly/c0ffee'
    >>> output_location("", "memory:") is None
    True
    """
    if "://" in setting:
        given = _bucket(setting)
        return replace(given, prefix=f"{given.prefix}/{folder}".strip("/"))
    if setting:
        return Path(setting).expanduser().absolute() / folder
    home = home_of(store)
    return state_folder() / "output" / home if home else None


def spool_folder(setting: str, store: str | None) -> Path | None:
    """Return the directory that the setting `spool` names. None: a temporary one, for as long as the process runs.

    The spool is a subfolder of that directory, and closed for other users. The directory itself also holds the
    workspaces of programs. A program with a user of its own must be able to reach its workspace.
    """
    if "://" in setting:
        raise DefinitionError(f"spool: expected a directory of this machine, got {shown_url(setting)!r}")
    home = home_of(store)
    if setting:
        return Path(setting).expanduser().absolute() / (home or "memory")
    return state_folder() / "spool" / home if home else None


def state_folder() -> Path:
    """Return the folder for this user's persistent state ($XDG_STATE_HOME)."""
    given = os.environ.get("XDG_STATE_HOME", "")
    base = Path(given) if given.startswith("/") else Path.home() / ".local" / "state"
    return base / "onthedot"


def home_of(store: str | None) -> str:
    """Return the name of the folder for a store's output on this machine; empty for a store in this process's memory.

    >>> home_of("memory:"), len(home_of("sqlite:///jobs.db")), home_of("redis://a:b@h/0") == home_of("redis://c@h/0")
    ('', 16, True)
    """
    if store is None or store.startswith("memory:"):
        return ""
    path = sqlite_path(store)
    if path is not None:
        address = f"sqlite:{path.resolve()}"
    else:
        parts = urlsplit(store)
        within = [(name, value) for name, value in parse_qsl(parts.query) if name in _STORES_APART]
        address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{within or ''}"
    return hashlib.sha256(address.encode(errors="surrogateescape")).hexdigest()[:16]


def _bucket(url: str) -> Bucket:
    parts = urlsplit(url)
    problems = []
    if parts.scheme != "s3":
        problems.append(f"expected a directory or s3://bucket/prefix, got {shown_url(url)!r}")
    elif "@" in parts.netloc:
        problems.append(
            "expected no keys in the address; put them into the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"
        )
    elif not parts.netloc:
        problems.append("expected s3://bucket/prefix, got no bucket")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    problems += [
        f"expected the options endpoint and region, got {name!r}{did_you_mean(name, _OPTIONS)}"
        for name in options
        if name not in _OPTIONS
    ]
    endpoint = options.get("endpoint", "")
    if endpoint and not endpoint.startswith(("http://", "https://")):
        problems.append(f"endpoint: expected http://… or https://…, got {shown_url(endpoint)!r}")
    if problems:
        raise DefinitionError(problems, subject="output")
    return Bucket(parts.netloc, parts.path.strip("/"), endpoint, options.get("region", ""))
