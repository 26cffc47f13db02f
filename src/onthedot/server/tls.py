"""The server's certificate: read at start, and again when its files have changed."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from onthedot.model.errors import DefinitionError

logger = logging.getLogger("onthedot.server")


class Certificate:
    """A chain in PEM, and its private key, in the same file or in another one. `context` is what sockets use."""

    def __init__(self, chain: str, key: str = "") -> None:
        self._chain = Path(chain)
        self._key = Path(key or chain)
        self._changed_at = self._when_changed()
        self.context = self._load(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))

    def renew(self) -> None:
        """Use what is in the files now, if it has changed. What cannot be used is logged, and the last one stays."""
        try:
            changed_at = self._when_changed()
            if changed_at == self._changed_at:
                return
            self._load(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))  # to try: half of it would break the other
            self._load(self.context)
        except DefinitionError as error:
            logger.error("the new certificate is not used: %s", error)
            return
        self._changed_at = changed_at
        logger.info("uses the new certificate in %s", self._chain)

    def _when_changed(self) -> tuple[int, int]:
        try:
            return self._chain.stat().st_mtime_ns, self._key.stat().st_mtime_ns
        except OSError as error:
            raise DefinitionError(
                f"tls_cert: expected files with a certificate and its key, but {error.filename}: {error.strerror}"
            ) from error

    def _load(self, context: ssl.SSLContext) -> ssl.SSLContext:
        try:
            context.load_cert_chain(self._chain, self._key, password=_no_password)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            raise DefinitionError(
                f"tls_cert: expected a certificate chain in PEM in {self._chain}, and its key without a password in "
                f"{self._key}, got something else ({reason})"
            ) from error
        return context


def _no_password() -> str:
    """Otherwise OpenSSL would ask for one on the terminal."""
    raise ValueError("the key has a password")
