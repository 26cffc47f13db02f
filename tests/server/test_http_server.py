"""The HTTP server on a real socket, in a thread of its own: start, stop, addresses and TLS."""

from __future__ import annotations

import itertools
import socket
import ssl
import threading
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

import onthedot.server.http_server
from onthedot.access.authenticator import Authenticator
from onthedot.access.permissions import Grant, Role
from onthedot.access.sessions import issue_token
from onthedot.model.errors import DefinitionError, StateError, StoreError
from onthedot.model.host_port import Listen, read_listen
from onthedot.server import connections
from onthedot.server.http_server import Certificate, HttpServer
from onthedot.settings import Settings
from tests.server.kit import MadeUpKeys

ANY = Listen(port=0)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'api.db'}"


@pytest.fixture
def serving(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpServer]:
    """A server with a long stop time-out, so that a busy machine cannot reach it."""
    monkeypatch.setattr(onthedot.server.http_server, "_STOP_TIMEOUT", 60)
    server = HttpServer(url, Settings(), ANY, knows=None)
    server.start()
    yield server
    server.stop()


def test_a_server_answers_from_its_start_to_its_stop(serving: HttpServer):
    assert httpx2.get(f"{serving.url}/api/v1/ready").json() == {"status": "ok"}
    with pytest.raises(StateError):
        serving.start()
    serving.stop()
    serving.stop()
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{serving.url}/api/v1/health")
    assert not [thread for thread in threading.enumerate() if thread.name == "onthedot api"]


def test_connections_send_without_delay(serving: HttpServer):
    with httpx2.Client(base_url=serving.url) as client:
        client.get("/api/v1/health")
        assert serving._server is not None
        [connection] = serving._server.server_state.connections
        theirs = connection.transport.get_extra_info("socket")
        assert theirs.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_open_connection_does_not_delay_the_stop(serving: HttpServer):
    with httpx2.Client(base_url=serving.url) as client:
        assert client.get("/api/v1/health").status_code == 200
        began = time.monotonic()
        serving.stop()
        assert time.monotonic() - began < 30


@pytest.mark.slow
def test_a_follower_does_not_delay_the_stop(serving: HttpServer):
    with httpx2.stream("GET", f"{serving.url}/api/v1/events", timeout=20) as following:
        assert following.status_code == 200
        began = time.monotonic()
        serving.stop()
        assert time.monotonic() - began < 30


def test_a_request_without_a_key_is_refused(url: str):
    keys = MadeUpKeys()
    server = HttpServer(url, Settings(), ANY, knows=lambda there: keys)
    server.start()
    try:
        assert httpx2.get(f"{server.url}/api/v1/whoami").status_code == 401
        known = keys.add(Role.VIEWER)
        assert httpx2.get(f"{server.url}/api/v1/whoami", headers=known).json()["role"] == "viewer"
    finally:
        server.stop()


@pytest.mark.slow
def test_two_servers_behind_a_load_balancer_act_as_one(url: str):
    """Requests go to the two servers in turn."""
    servers = [
        HttpServer(url, Settings(), ANY, knows=lambda there: Authenticator(there.store, there.clock)) for _ in range(2)
    ]
    for server in servers:
        server.start()
    turn = itertools.cycle(servers)

    def ask(method: str, path: str, bearer: str = "", **body: object) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        return httpx2.request(method, f"{next(turn).url}/api/v1{path}", headers=headers, json=body or None)

    try:
        once = servers[0].ask(lambda there: issue_token(there.store, "up", Grant(role=Role.ADMIN)))
        token = ask("POST", "/login", token=once).json()["token"]
        assert ask("POST", "/jobs", token, name="nap", sleep="0s").status_code == 201
        assert ask("GET", "/jobs/nap", token).json()["revision"] == 1
        assert ask("POST", "/runs", token, job="nap", key="k").json() == {"run_id": 1, "created": True}
        assert ask("POST", "/runs", token, job="nap", key="k").json() == {"run_id": 1, "created": False}
        assert ask("POST", "/logout", token).status_code == 204
        time.sleep(2.1)  # servers cache sessions for two seconds
        assert {ask("GET", "/whoami", token).status_code for _ in servers} == {401}
    finally:
        for server in servers:
            server.stop()


@pytest.mark.parametrize("host", ["::", "192.0.2.1", "example.org"])
def test_a_public_address_without_keys_needs_insecure(url: str, host: str):
    with pytest.raises(DefinitionError, match="--insecure"):
        HttpServer(url, Settings(), Listen(host=host), knows=None)


def test_a_used_port_is_an_error_or_another_one_is_chosen(url: str):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DefinitionError, match=rf"127.0.0.1:{port} to be free.*--listen"):
            HttpServer(url, Settings(), Listen(port=port), knows=None).start()
        server = HttpServer(url, Settings(), Listen(port=port, elsewhere=True), knows=None)
        server.start()
        try:
            assert str(port) not in server.url
            assert httpx2.get(f"{server.url}/api/v1/health").status_code == 200
        finally:
            server.stop()


def test_a_store_that_cannot_be_opened_fails_the_start(tmp_path: Path):
    (tmp_path / "no.db").write_text("this is no database, and is long enough not to be taken for an empty one" * 20)
    with pytest.raises(StoreError):
        HttpServer(f"sqlite:///{tmp_path / 'no.db'}", Settings(), ANY, knows=None).start()


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "host:70000", "::1:80", "host:-1", "host:\uff11"])
def test_an_invalid_listen_address_is_refused(text: str):
    with pytest.raises(DefinitionError, match="HOST:PORT"):
        read_listen(text)


Start = Callable[..., HttpServer]


def write(folder: Path, name: str, *, password: bytes = b"") -> tuple[str, str]:
    """Write a self-signed certificate for this machine, with this name, and its key. Return the paths of both."""
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
    """The name in the certificate that a new connection gets. The file `chain` must hold that certificate."""
    trust = ssl.create_default_context(cafile=chain)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as plain,
        trust.wrap_socket(plain, server_hostname="127.0.0.1") as safe,
    ):
        told = safe.getpeercert(binary_form=True)
        assert told is not None
        return x509.load_der_x509_certificate(told).subject.rfc4514_string().removeprefix("CN=")


def test_a_server_with_a_certificate_takes_https_only(start: Start, tmp_path: Path):
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


def test_a_renewed_certificate_is_used_without_a_restart(start: Start, tmp_path: Path):
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
def test_a_connection_without_a_handshake_is_closed(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "HEADERS", 0.5)
    chain, key = write(tmp_path, "first")
    serving = start(tls_cert=chain, tls_key=key, api_clients_per_address=1)
    port = int(serving.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as silent:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as second:
            assert second.recv(1) == b""  # an address may have one connection
        assert silent.recv(1) == b""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            assert name_of(port, chain) == "first"
            return
        except (ConnectionResetError, ssl.SSLEOFError):
            continue
    raise AssertionError("the place of the silent connection must become free")


def test_an_invalid_certificate_is_refused(tmp_path: Path):
    chain, key = write(tmp_path, "first")
    with pytest.raises(DefinitionError, match="No such file"):
        Certificate(str(tmp_path / "none.pem"), key)
    with pytest.raises(DefinitionError, match="its key without a password"):
        Certificate(chain)  # the file has no key
    with pytest.raises(DefinitionError, match="expected a certificate chain in PEM"):
        Certificate(key, chain)
    chain, key = write(tmp_path, "hidden", password=b"a password")
    with pytest.raises(DefinitionError, match="the key has a password"):
        Certificate(chain, key)
    with pytest.raises(DefinitionError, match="tls_key: expected a certificate"):
        Settings(tls_key=key)
