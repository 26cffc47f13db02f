"""Where a node's attempts leave their output: its spool, and the output store behind it."""

from __future__ import annotations

from typing import NamedTuple

from onthedot.ids import Ids
from onthedot.output.keeping import Outputs
from onthedot.output.owning import claim_output
from onthedot.output.places import spool_place
from onthedot.output.spool import Spool
from onthedot.settings import Settings
from onthedot.stores.protocol import Store


class Leaving(NamedTuple):
    """Both belong to one store."""

    spool: Spool
    outputs: Outputs


async def open_leaving(settings: Settings, url: str | None, store: Store, ids: Ids) -> Leaving:
    """As the settings say, beside this store of this URL (None: one that has no address). The store is told where its
    output goes; nothing else is made or asked yet."""
    owner = await claim_output(store, settings.output, ids)
    return Leaving(Spool(spool_place(settings.spool, url)), Outputs(owner.place(settings.output, url)))
