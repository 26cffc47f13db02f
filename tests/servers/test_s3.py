"""The S3 server of the tests: it checks signatures, and leaves no files or processes."""

from __future__ import annotations

from pathlib import Path

import obstore
import pytest
from obstore.exceptions import PermissionDeniedError
from obstore.store import S3Store

from tests.servers import running
from tests.servers.s3 import REGION, S3Server


def client(server: S3Server, secret: str) -> S3Store:
    return S3Store(
        "onthedot",
        prefix=server.fresh_prefix(),
        endpoint=server.endpoint,
        region=REGION,
        access_key_id=server.key,
        secret_access_key=secret,
        client_options={"allow_http": True},
    )


def test_the_right_key_may_write_and_a_wrong_one_is_refused(s3: S3Server):
    store = client(s3, s3.secret)
    obstore.put(store, "a", b"kept")
    assert obstore.get(store, "a").bytes() == b"kept"
    with pytest.raises(PermissionDeniedError, match="SignatureDoesNotMatch"):
        obstore.put(client(s3, "0" * 40), "a", b"forged")
    assert obstore.get(store, "a").bytes() == b"kept"


@pytest.mark.slow
def test_a_closed_server_leaves_no_process_and_no_files():
    before = set(Path("/tmp").glob("seaweedfs-*"))
    with S3Server() as server:
        pid, folder, ports = server.pid, server.folder, [str(port) for port in server._grpc.values()]
        assert (folder / "data").exists()
    assert running.state_of(pid) == ""
    assert not folder.exists()
    made = set(Path("/tmp").glob("seaweedfs-*")) - before
    assert [path for path in made if any(port in path.name for port in ports)] == []


@pytest.mark.slow
def test_two_servers_can_run_at_once(s3: S3Server):
    with S3Server() as other:
        for server in (s3, other):
            obstore.put(client(server, server.secret), "a", b"kept")
