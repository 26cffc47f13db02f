"""Runs an identity provider on loopback: it publishes its keys, and signs tokens with the claims of a test."""

from __future__ import annotations

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from onthedot.clock import SECOND, Micros

CLIENT = "onthedot-test"
RSA = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
"""Generated once, because it is slow."""


def claims(issuer: str, now: Micros, **more: Any) -> dict[str, Any]:
    """The claims of a valid token. `more` replaces some; None removes one."""
    at = now // SECOND
    said = {
        "iss": issuer, "aud": CLIENT, "sub": "auth0|ann", "iat": at, "exp": at + 600, "email": "ann@example.org",
        "email_verified": True, **more,
    }  # fmt: skip
    return {name: value for name, value in said.items() if value is not None}


def signed(said: dict[str, Any], key: RSAKey | ECKey = RSA, algorithm: str = "RS256", **header: Any) -> str:
    """A token with these claims."""
    headers = {"alg": algorithm, "kid": key.kid, "typ": "JWT", **header}
    known = {name: value for name, value in headers.items() if value is not None}
    return jwt.encode(known, said, key, algorithms=[algorithm])


class Issuer:
    """Answers on its own port. A test can change what it publishes, and it counts requests."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.keys: list[dict[str, Any]] = [RSA.as_dict(private=False)]
        self.more: dict[str, Any] = {}  # replaces fields of its metadata
        self.answers: dict[str, tuple[int, bytes]] = {}  # replaces the answers of these paths
        self.silent = threading.Event()  # while cleared, no request is answered
        self.silent.set()
        issuer = self

        class Asked(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked[self.path] += 1
                issuer.silent.wait(60)
                status, body = issuer.answer(self.path)
                self.send_response(status)
                self.send_header("Location", f"{issuer.url}/keys")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Asked)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def answer(self, path: str) -> tuple[int, bytes]:
        if path in self.answers:
            return self.answers[path]
        if path == "/.well-known/openid-configuration":
            told = {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **self.more}
            return 200, json.dumps(told).encode()
        return (200, json.dumps({"keys": self.keys}).encode()) if path == "/keys" else (404, b"")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
