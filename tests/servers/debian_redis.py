"""Runs Debian's redis-server for tests. Unlike Valkey from the wheel, it supports TLS."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.servers import running, setup
from tests.servers.valkey import ValkeyServer


class DebianRedis(ValkeyServer):
    """See `ValkeyServer`. With `tls` it also listens on `tls_port`, with a certificate for `localhost`."""

    def __init__(self, *, tls: bool = False, **settings: str) -> None:
        super().__init__(**settings)
        self.tls_port = running.free_port()
        self.certificate = self.folder / "server.pem"
        if tls:
            make_certificate(self.certificate)
            files = {f"tls-{name}-file": str(self.certificate) for name in ("cert", "key", "ca-cert")}
            self._given |= {"tls-port": str(self.tls_port), "tls-auth-clients": "no", **files}

    def binary(self) -> Path:
        found = setup.REDIS.found()
        if found is None:
            raise running.ServerTrouble(setup.REDIS.why_missing())
        return Path(found)

    def tls_url(self, *, user: str = "", password: str | None = None, host: str = "localhost") -> str:
        """Its URL for TLS, with its certificate."""
        place = f"{host}:{self.tls_port}/0?ssl_ca_certs={self.certificate}"
        return f"rediss://{user}:{password or self.password}@{place}"


def make_certificate(file: Path) -> None:
    """Write a self-signed certificate for `localhost` and its key into one file that the server's user may read."""
    command = ["openssl", "req", "-x509", "-days", "2", "-nodes", "-newkey", "ec", "-pkeyopt"]
    command += ["ec_paramgen_curve:prime256v1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    public = file.with_suffix(".public")
    subprocess.run([*command, "-keyout", file, "-out", public], check=True, capture_output=True)
    file.write_bytes(file.read_bytes() + public.read_bytes())
    file.chmod(0o644)
