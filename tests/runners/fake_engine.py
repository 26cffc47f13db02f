"""A fake container engine: Docker's API on a socket, with plain processes of this machine as containers.

It isolates and limits nothing. It shows what our side asks for, in which order, and what our side makes of the answers.
`tests/runners/test_container_podman.py` does the same with a real engine.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

STREAMS = {"stdout": 1, "stderr": 2}


@dataclass
class FakeContainer:
    """A container: a process that runs or will run."""

    config: dict[str, Any]
    process: subprocess.Popen[bytes] | None = None
    output: dict[str, list[bytes]] = field(default_factory=lambda: {"stdout": [], "stderr": []})
    closed: set[str] = field(default_factory=set)
    news: threading.Condition = field(default_factory=threading.Condition)
    signals: list[str] = field(default_factory=list)
    up: threading.Event = field(default_factory=threading.Event)  # set at its first output

    def start(self) -> None:
        environment = dict(variable.split("=", 1) for variable in self.config["Env"])
        self.process = subprocess.Popen(
            self.config["Cmd"], env={"PATH": os.defpath, **environment}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        for name in STREAMS:
            threading.Thread(target=self._read, args=(name,), daemon=True).start()
        threading.Thread(target=self._kill_the_rest, args=(self.process,), daemon=True).start()

    def _kill_the_rest(self, process: subprocess.Popen[bytes]) -> None:
        """A container ends with its first process."""
        process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    def _read(self, name: str) -> None:
        assert self.process is not None
        pipe = getattr(self.process, name)
        while data := pipe.read1(4096):
            with self.news:
                self.output[name].append(data)
                self.news.notify_all()
            self.up.set()
        with self.news:
            self.closed.add(name)
            self.news.notify_all()
        pipe.close()

    def frames(self, name: str) -> Iterator[bytes]:
        """Yields the output of one stream in the frames of the API, until the stream ends."""
        for number in itertools.count():
            with self.news:
                while len(self.output[name]) <= number and name not in self.closed:
                    self.news.wait()
                if len(self.output[name]) <= number:
                    return
                data = self.output[name][number]
            yield struct.pack(">BxxxL", STREAMS[name], len(data)) + data

    def kill(self, name: str) -> None:
        self.signals.append(name)
        if self.process is not None and self.process.poll() is None:
            self.process.kill() if name == "KILL" else self.process.terminate()

    def stop(self, seconds: float) -> None:
        self.kill("TERM")
        assert self.process is not None
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill("KILL")
            self.process.wait()

    @property
    def code(self) -> int:
        code = self.process.poll() if self.process else None
        return 0 if code is None else 128 - code if code < 0 else code


@dataclass
class Engine:
    """The state of the engine, and the requests that it got."""

    url: str
    images: set[str] = field(default_factory=lambda: {"busybox"})
    registry: set[str] = field(default_factory=set)
    containers: dict[str, FakeContainer] = field(default_factory=dict)
    removed: dict[str, FakeContainer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)  # requests whose path ends with one of these are answered with 500
    out_of_memory: bool = False
    created: threading.Event = field(default_factory=threading.Event)
    up: threading.Event = field(default_factory=threading.Event)  # set at the first output of a container
    swept: threading.Event = field(default_factory=threading.Event)  # set when a container is removed
    may_create: threading.Event = field(default_factory=threading.Event)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def add(self, **labels: str) -> str:
        """Add a container that somebody left and that never ran. Returns its id."""
        name = f"{next(self.numbers):064x}"
        self.containers[name] = FakeContainer({"Labels": labels})
        return name


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def answer(self, status: int, body: object = None) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def address_string(self) -> str:
        return "socket"

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def _any(self) -> None:
        parts = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path = parts.path.removeprefix("/v1.41").strip("/").split("/")
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        engine = self.server.engine
        engine.asked.append(f"{self.command} {'/'.join(path[:1] + path[2:] if len(path) > 2 else path)}")
        with suppress(BrokenPipeError, ConnectionResetError):
            if path[-1] in engine.broken:
                self.answer(500, {"message": f"no {path[-1]} today"})
                return
            match path:
                case ["_ping"] | ["version"]:
                    self.answer(200, {"ApiVersion": "1.41"})
                case ["images", "create"]:
                    self._pull(engine)
                case ["containers", "create"]:
                    self._create(engine)
                case ["containers", "json"]:
                    self._list(engine)
                case ["containers", name, *verb]:
                    self._container(engine, name, verb)

    do_GET = do_POST = do_DELETE = _any  # noqa: N815 - the library's names

    def _pull(self, engine: Engine) -> None:
        image = self.query["fromImage"]
        if image in engine.registry:
            engine.images.add(image)
            self.answer(200, {"status": "done"})
        else:
            self.answer(404, {"message": f"{image}: not found"})

    def _create(self, engine: Engine) -> None:
        config = json.loads(self.body)
        engine.created.set()
        engine.may_create.wait(10)
        if config["Image"] not in engine.images:
            self.answer(404, {"message": f"No such image: {config['Image']}"})
            return
        name = f"{next(engine.numbers):064x}"
        engine.containers[name] = FakeContainer(config, up=engine.up)
        self.answer(201, {"Id": name})

    def _list(self, engine: Engine) -> None:
        wanted = [one.split("=", 1) for one in json.loads(self.query["filters"])["label"]]
        found = []
        for name, container in engine.containers.items():
            labels = container.config["Labels"]
            if all(labels.get(key, None) in (value or [labels.get(key)]) and key in labels for key, *value in wanted):
                found.append({"Id": name, "Labels": labels})
        self.answer(200, found)

    def _container(self, engine: Engine, name: str, verb: list[str]) -> None:
        container = engine.containers.get(name)
        if container is None:
            self.answer(404, {"message": f"No such container: {name}"})
            return
        match self.command, verb:
            case "POST", ["start"]:
                try:
                    container.start()
                except OSError as error:
                    self.answer(400, {"message": f"exec failed: {error}"})
                    return
                self.answer(204)
            case "POST", ["wait"]:
                assert container.process is not None
                container.process.wait()
                self.answer(200, {"StatusCode": container.code})
            case "POST", ["stop"]:
                container.stop(float(self.query.get("t", "10")))
                self.answer(204)
            case "POST", ["kill"]:
                container.kill(self.query.get("signal", "KILL"))
                self.answer(204)
            case "GET", ["json"]:
                state = {"ExitCode": container.code, "OOMKilled": engine.out_of_memory}
                self.answer(200, {"Id": name, "State": state, "Config": {"Tty": False}})
            case "GET", ["logs"]:
                self._logs(container)
            case "DELETE", []:
                container.kill("KILL")
                engine.removed[name] = engine.containers.pop(name)
                engine.swept.set()
                self.answer(204)

    def _logs(self, container: FakeContainer) -> None:
        [stream] = [name for name in STREAMS if self.query.get(name, "").lower() in ("1", "true")]
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        for frame in container.frames(stream):
            self.wfile.write(frame)
        self.close_connection = True


class Server(ThreadingHTTPServer):
    address_family = socket.AF_UNIX
    daemon_threads = True
    engine: Engine

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "localhost", 0

    def get_request(self) -> tuple[Any, Any]:
        talk, _ = self.socket.accept()
        return talk, ("socket", 0)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that disconnects is no error."""


@contextmanager
def fake_engine(folder: Path) -> Iterator[Engine]:
    """An engine on a socket in this folder, until the block ends. Then its running containers are killed."""
    path = str(folder / "engine.sock")
    server = Server(path, Handler)  # type: ignore[arg-type]  # a path is an address in this family
    engine = server.engine = Engine(f"unix://{path}")
    engine.may_create.set()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield engine
    finally:
        engine.may_create.set()
        for container in (*engine.containers.values(), *engine.removed.values()):
            container.kill("KILL")
            if container.process is not None:
                container.process.wait()
        server.shutdown()
        server.server_close()
        thread.join()
