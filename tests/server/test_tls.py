"""The server over TLS, on a real socket."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from onthedot.model.errors import DefinitionError
from onthedot.model.host_port import Listen
from onthedot.server import timeouts
from onthedot.server.http_server import HttpServer
from onthedot.server.tls import Certificate
from onthedot.settings import Settings

Start = Callable[..., HttpServer]


def write(folder: Path, name: str, *, password: bytes = b"") -> tuple[str, str]:
    """A certificate for this machine that has this name, signed by itself, and its key: two files."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    hidden = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)
    chain_file, key_file = folder / "chain.pem", folder / "key.pem"
    chain_file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(private)
    return str(chain_file), str(key_file)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(**settings: object) -> HttpServer:
            url = f"sqlite:///{tmp_path / 'api.db'}"
            server = HttpServer(url, Settings(**settings), Listen(port=0), knows=None)  # type: ignore[arg-type]
            server.start()
            stack.callback(server.stop)
            return server

        yield begin


def name_of(port: int, chain: str) -> str:
    """Whose certificate a new connection is shown, if it is the one in this file."""
    trust = ssl.create_default_context(cafile=chain)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as plain,
        trust.wrap_socket(plain, server_hostname="127.0.0.1") as safe,
    ):
        told = safe.getpeercert(binary_form=True)
        assert told is not None
        return x509.load_der_x509_certificate(told).subject.rfc4514_string().removeprefix("CN=")


def test_it_speaks_https_and_nothing_else(start: Start, tmp_path: Path):
    chain, key = write(tmp_path, "first")
    serving = start(tls_cert=chain, tls_key=key)
    assert serving.url.startswith("https://127.0.0.1:")
    with httpx2.Client(base_url=serving.url, verify=ssl.create_default_context(cafile=chain)) as client:
        assert client.get("/api/v1/health").json() == {"status": "ok"}
        assert client.get("/api/v1/health").status_code == 200
    with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx2.get(f"{serving.url}/api/v1/health")
    with pytest.raises(httpx2.TransportError):
        httpx2.get(f"{serving.url.replace('https', 'http')}/api/v1/health")


def test_a_certificate_that_was_renewed_is_used_without_a_restart(start: Start, tmp_path: Path):
    chain, key = write(tmp_path, "first")
    serving = start(tls_cert=chain, tls_key=key)
    port = int(serving.url.rpartition(":")[2])
    assert name_of(port, chain) == "first"
    assert serving._certificate is not None
    write(tmp_path, "second")
    serving._certificate.renew()
    assert name_of(port, chain) == "second"


def test_a_new_certificate_without_its_key_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    chain, key = write(tmp_path, "first")
    certificate = Certificate(chain, key)
    before = Path(key).read_bytes()
    write(tmp_path, "second")
    Path(key).write_bytes(before)
    certificate.renew()
    assert "the new certificate is not used: " in caplog.text
    assert "KEY_VALUES_MISMATCH" in caplog.text


@pytest.mark.slow
def test_a_handshake_that_does_not_come(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timeouts, "HEADERS", 0.5)
    chain, key = write(tmp_path, "first")
    serving = start(tls_cert=chain, tls_key=key, api_clients_per_address=1)
    port = int(serving.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as silent:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as second:
            assert second.recv(1) == b""  # one is all that this address may have
        assert silent.recv(1) == b""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            assert name_of(port, chain) == "first"
            return
        except (ConnectionResetError, ssl.SSLEOFError):
            continue
    raise AssertionError("the place of the silent one was not given to another")


def test_what_is_no_certificate_is_told(tmp_path: Path):
    chain, key = write(tmp_path, "first")
    with pytest.raises(DefinitionError, match="No such file"):
        Certificate(str(tmp_path / "none.pem"), key)
    with pytest.raises(DefinitionError, match="its key without a password"):
        Certificate(chain)  # which has no key
    with pytest.raises(DefinitionError, match="expected a certificate chain in PEM"):
        Certificate(key, chain)
    chain, key = write(tmp_path, "hidden", password=b"a password")
    with pytest.raises(DefinitionError, match="the key has a password"):
        Certificate(chain, key)
    with pytest.raises(DefinitionError, match="tls_key: expected a certificate"):
        Settings(tls_key=key)
