"""`--metrics`: a door for Prometheus beside a node that serves no API."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from onthedot.model.host_port import Listen
    from onthedot.observe.counters import Counters
    from onthedot.observe.metrics_server import MetricsServer


def read_metrics(ctx: click.Context, param: click.Parameter, value: str | None) -> Listen | None:
    """The callback of `--metrics`."""
    from onthedot.model.errors import DefinitionError
    from onthedot.model.host_port import read_listen

    if value is None:
        return None
    if find_spec("prometheus_client") is None:
        raise click.BadParameter("it is not installed (pip install 'onthedot[metrics]')", ctx, param)
    try:
        return read_listen(value, "address")
    except DefinitionError as error:
        raise click.BadParameter(str(error), ctx, param) from None


class Metrics:
    """The door, from `start` to `stop`."""

    def __init__(self, counters: Counters, listen: Listen) -> None:
        self._counters = counters
        self._listen = listen
        self._door: MetricsServer | None = None

    def start(self) -> list[tuple[str, str]]:
        """Open it; what is to be told about it."""
        from onthedot.observe.metrics_server import MetricsServer

        self._door = MetricsServer(self._counters, self._listen)
        return [("metrics", self._door.start())]

    def stop(self) -> None:
        """Twice is fine."""
        if self._door is not None:
            self._door.stop()

    def ping(self, answer: Callable[[], None]) -> None:
        """See `Beside`: each request has a thread of its own."""
        answer()
