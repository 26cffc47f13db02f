"""Where a node's attempts leave their output: its spool, and the output store behind it."""

from __future__ import annotations

from typing import NamedTuple

from onthedot.output.keeping import Outputs
from onthedot.output.places import output_place, spool_place
from onthedot.output.spool import Spool
from onthedot.settings import Settings


class Leaving(NamedTuple):
    """Both belong to one store."""

    spool: Spool
    outputs: Outputs


def open_leaving(settings: Settings, store: str | None) -> Leaving:
    """As the settings say, beside the store of this URL (None: one that has no address). Nothing is made or asked yet.

    >>> str(open_leaving(Settings(output="s3://logs/nightly"), "memory:").outputs)
    's3://logs/nightly'
    """
    spool = Spool(spool_place(settings.spool, store))
    return Leaving(spool, Outputs(output_place(settings.output, store)))
