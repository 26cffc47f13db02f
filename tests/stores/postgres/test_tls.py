"""Connections use TLS as the URL says, and only with a server that has the right certificate.

The PostgreSQL server of these tests has no TLS. A small proxy in front of it adds it, as hosted servers do.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from onthedot.model.errors import StoreUnavailable
from onthedot.stores.postgres import PostgresStore
from tests.servers.postgres import name_of
from tests.servers.shared import SharedPostgres

TLS_REQUEST_SIZE = 8  # bytes of the first message of a client that wants TLS


class TlsProxy:
    """Decrypts TLS and forwards the content."""

    def __init__(self, port: int, certificate: Path) -> None:
        self._port = port
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificate)
        self.handshakes = 0
        self._inside: set[asyncio.Task[None]] = set()

    async def enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._inside.add(task)
        try:
            await self._pass_on(reader, writer)
        finally:
            writer.close()
            self._inside.discard(task)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(TLS_REQUEST_SIZE)
        writer.write(b"S")
        try:
            await writer.start_tls(self._context)
        except (ssl.SSLError, ConnectionError):
            return
        self.handshakes += 1
        inside, outside = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            await asyncio.gather(_pump(reader, outside), _pump(inside, writer))
        finally:
            outside.close()  # a pump that was cancelled before its start closed nothing

    async def close(self) -> None:
        """End all connections."""
        for task in self._inside:
            task.cancel()
        await asyncio.gather(*self._inside, return_exceptions=True)
        await asyncio.sleep(0)  # transports close one turn later


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except (ConnectionError, ssl.SSLError):
        return
    finally:
        writer.close()


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate for `localhost`, with its key."""
    file = tmp_path / "server.pem"
    command = ["openssl", "req", "-x509", "-days", "2", "-nodes", "-newkey", "ec", "-pkeyopt"]
    command += ["ec_paramgen_curve:prime256v1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, "-keyout", file, "-out", tmp_path / "certificate"], check=True, capture_output=True)
    file.write_bytes(file.read_bytes() + (tmp_path / "certificate").read_bytes())
    return file


@pytest.fixture
async def tls_proxy(postgres: SharedPostgres, certificate: Path) -> AsyncIterator[tuple[TlsProxy, int]]:
    tls_proxy = TlsProxy(postgres.port, certificate)
    server = await asyncio.start_server(tls_proxy.enter, "127.0.0.1", 0)
    yield tls_proxy, server.sockets[0].getsockname()[1]
    server.close()
    await tls_proxy.close()


async def test_tls_is_used_and_the_certificate_is_checked(
    tls_proxy: tuple[TlsProxy, int], certificate: Path, postgres: SharedPostgres, empty_url: str
):
    through, port = tls_proxy
    url = f"postgresql://onthedot:{postgres.password}@localhost:{port}/{name_of(empty_url)}"
    store = await PostgresStore.open(f"{url}?sslmode=verify-full&sslrootcert={certificate}")
    assert await store.queries.list_jobs() == []
    await store.close()
    assert through.handshakes >= 2  # for every connection
    before = through.handshakes
    another = url.replace("localhost", "127.0.0.1")
    with pytest.raises(StoreUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        await PostgresStore.open(f"{another}?sslmode=verify-full&sslrootcert={certificate}")
    assert through.handshakes == before


async def test_tls_is_required_for_a_server_on_another_machine(
    tls_proxy: tuple[TlsProxy, int],
    certificate: Path,
    postgres: SharedPostgres,
    empty_url: str,
    monkeypatch: pytest.MonkeyPatch,
):
    # As if it were on another machine.
    monkeypatch.setattr("onthedot.stores.postgres.connections.is_local", lambda host: False)
    where = f"127.0.0.1:{postgres.port}/{name_of(empty_url)}"
    with pytest.raises(StoreUnavailable) as refused:
        await PostgresStore.open(f"postgresql://onthedot:{postgres.password}@{where}")
    assert "rejected SSL upgrade" in str(refused.value)
    change = f"'postgresql://onthedot:***@{where}?sslmode=disable'"
    assert f"only in a network that you trust, do without TLS, {change}" in str(refused.value)
    store = await PostgresStore.open(f"postgresql://onthedot:{postgres.password}@{where}?sslmode=disable")
    await store.close()
    through, port = tls_proxy
    url = f"postgresql://onthedot:{postgres.password}@localhost:{port}/{name_of(empty_url)}"
    # This machine does not trust the certificate.
    with pytest.raises(StoreUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        await PostgresStore.open(url)
    store = await PostgresStore.open(f"{url}?sslrootcert={certificate}")
    await store.close()
    assert through.handshakes


async def test_a_required_tls_connection_never_falls_back_to_plain_text(empty_url: str):
    with pytest.raises(StoreUnavailable, match="rejected SSL upgrade"):
        await PostgresStore.open(f"{empty_url}?sslmode=require")
