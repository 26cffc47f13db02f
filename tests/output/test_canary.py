"""Redaction from end to end: a program prints a secret in many forms, and no stored or shown byte reveals it."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from onthedot.model.events import Events
from onthedot.node.output_upkeep import OutputKeeper
from onthedot.output.capture import Capture
from onthedot.output.output_store import Name, OutputStore
from onthedot.output.spool import Spool

pytestmark = pytest.mark.slow

CANARY = 'kAn4ry/"bird"&cage=+é'
NAME = Name(7, 1, "a-1")

PROGRAM = """
import base64, json, os, sys
from urllib.parse import quote, quote_plus
secret = os.environ["CANARY"]
raw = secret.encode()
forms = [
    raw, base64.b64encode(raw), base64.urlsafe_b64encode(raw),
    base64.b64encode(b"u:" + raw), base64.b64encode(b"u" + raw),
    quote(secret, safe="").encode(), quote_plus(secret).encode(), json.dumps(secret).encode(), raw.hex().encode(),
    json.dumps(secret, ensure_ascii=False).encode(), repr(secret).encode(),
]
noise = int(sys.argv[1])
for number in range(3):
    for form in forms:
        for stream in (sys.stdout.buffer, sys.stderr.buffer):
            stream.write(b"<" + form + b">" + b"." * noise + b"\\n")
            stream.flush()
"""


def telltales() -> list[bytes]:
    """Parts of the secret, in each encoding. None of them may appear."""
    raw = CANARY.encode()
    whole = [
        raw[:6],
        raw[-8:],
        quote(CANARY, safe="").encode()[:8],
        json.dumps(CANARY).encode()[1:8],
        raw.hex().encode()[:12],
    ]
    encoded = [base64.b64encode(prefix + raw)[4:12] for prefix in (b"", b"u", b"u:")]
    return [*whole, *encoded]


def persisted(*folders: Path) -> bytes:
    """The paths and the unpacked contents of all files."""
    found = b""
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        found += gzip.decompress(data) if path.suffix == ".gz" else data
        found += str(path).encode()
    return found


@pytest.mark.parametrize("size", [1, 5, 4_096])
@pytest.mark.parametrize(("noise", "limit"), [(0, 10 << 20), (3, 2_000), (50, 4_000)])
def test_no_stored_or_shown_byte_reveals_the_secret(tmp_path: Path, size: int, noise: int, limit: int):
    spool, outputs = Spool(tmp_path / "spool"), OutputStore(tmp_path / "output")
    capture = Capture(spool.log_of(NAME), step="sing", limit=limit, secrets=(CANARY,), clock=lambda: 1)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(noise)],
        env={"CANARY": CANARY, "PYTHONUTF8": "1"},
        capture_output=True,
        check=True,
    )
    assert CANARY.encode() in done.stdout
    shown = ""
    for at in range(0, len(done.stdout), size):
        shown += capture.feed("out", done.stdout[at : at + size])
        shown += capture.feed("err", done.stderr[at : at + size])
    shown += "".join(text for _, text in capture.close())
    waiting = persisted(spool.root)
    spool.hand_in(NAME)
    keeper = OutputKeeper(None, spool, outputs, Events(), lambda: 0)  # type: ignore[arg-type]
    asyncio.run(keeper.tick(-1))
    kept = persisted(spool.root, tmp_path / "output")
    assert b"***" in kept
    for part in telltales():
        assert part not in waiting
        assert part not in kept
        assert part not in shown.encode()
