"""The base class of test servers, tested with a server that only sleeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.servers import running
from tests.servers.server import Server


class Idle(Server):
    what = "Idle"
    script = "echo here; exec sleep 600"

    def _prepare(self) -> None:
        return

    def _command(self) -> Sequence[str | Path]:
        return ["/bin/sh", "-c", self.script]

    def _answers(self) -> bool:
        return "here" in running.tail(self.log)


class Unprepared(Idle):
    def _prepare(self) -> None:
        folders.append(self.folder)
        raise KeyboardInterrupt


folders: list[Path] = []


@pytest.mark.slow
def test_a_server_is_restarted_and_leaves_no_process_and_no_folder():
    with Idle() as server:
        pid, folder, port = server.pid, server.folder, server.port
        assert running.state_of(pid) in "RS"
        server.restart_immediately()
        assert running.state_of(pid) == ""
        assert (server.pid != pid, server.port) == (True, port)
        pid = server.pid
    assert running.state_of(pid) == ""
    assert not folder.exists()
    server.close()


@pytest.mark.slow
def test_a_paused_server_can_be_stopped():
    with Idle() as server:
        assert server.pause() == [server.pid]
        assert running.state_of(server.pid) == "T"
        pid = server.pid
        server.stop()
        assert running.state_of(pid) == ""


@pytest.mark.slow
def test_a_server_that_ends_before_it_answers_reports_the_reason():
    server = Idle()
    server.script = "echo no room; exit 3"
    with pytest.raises(running.ServerTrouble, match="Idle ended with 3 before it answered:\nno room"):
        server.start()
    server.close()


def test_a_server_whose_preparation_fails_leaves_no_folder():
    with pytest.raises(KeyboardInterrupt):
        Unprepared()
    assert not folders.pop().exists()
