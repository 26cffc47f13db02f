"""The Valkey of the tests: it survives kills and pauses, and leaves no files or processes."""

from __future__ import annotations

import pytest
import redis

from tests.servers import running
from tests.servers.valkey import ValkeyServer


def test_written_data_survives_a_kill(valkey_server: ValkeyServer):
    with valkey_server.client() as db:
        db.set("key", "value")
        first = db.info("server")["run_id"]
    valkey_server.restart_immediately()
    with valkey_server.client() as db:
        assert db.get("key") == "value"
        assert db.info("server")["run_id"] != first


def test_a_paused_server_does_not_answer_until_it_resumes(valkey_server: ValkeyServer):
    valkey_server.pause()
    impatient = redis.Redis(port=valkey_server.port, password=valkey_server.password, socket_timeout=0.1)
    with impatient as db, pytest.raises(redis.TimeoutError):
        db.ping()
    valkey_server.resume()
    with valkey_server.client() as db:
        assert db.ping()


@pytest.mark.slow
def test_a_closed_server_leaves_no_process_and_no_folder():
    with ValkeyServer() as server:
        pid, folder = server.pid, server.folder
        assert server.aof.exists()
    assert running.state_of(pid) == ""
    assert not folder.exists()


def test_a_missing_password_is_refused(valkey: ValkeyServer):
    with redis.Redis(port=valkey.port) as db, pytest.raises(redis.AuthenticationError):
        db.ping()
