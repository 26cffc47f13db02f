"""Gives each store a folder of its own for output, and opens a node's spool and output store.

The leader removes the output of runs that its store no longer has. It must not remove another store's output, and
several stores may share the location that `Settings.output` names. So each store has a folder there. The folder's name
is an id in the store. So it does not depend on the store's address. The store also holds the location, so that programs
that only read can find it.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from onthedot.ids import Ids
from onthedot.model.errors import StoreError
from onthedot.output.locations import Location, output_location, spool_folder
from onthedot.output.output_store import OutputStore
from onthedot.output.spool import Spool
from onthedot.settings import Settings
from onthedot.stores.documents import Document
from onthedot.stores.protocol import Store

KIND, ID = "output", "owner"
_FOLDER = re.compile(r"[0-9a-f]{32}")


class Owner(NamedTuple):
    """A store as the owner of output: its folder, and the `Settings.output` of its nodes (empty: the default)."""

    folder: str
    output: str = ""

    def location(self, setting: str, store: str | None) -> Location:
        """Return the location of the store's output: from `setting`, or if that is empty, from its nodes' setting.

        >>> str(Owner("0" * 32, "s3://logs/nightly").location("", "sqlite:///jobs.db"))
        's3://logs/nightly/00000000000000000000000000000000'
        """
        return output_location(setting or self.output, store, self.folder)


async def find_owner(store: Store) -> Owner:
    """Return the owner that the store holds. This writes nothing. `folder` is empty if no node has claimed one yet."""
    return _owner(await store.documents.get_document(KIND, ID))


async def claim_output(store: Store, setting: str, ids: Ids) -> Owner:
    """Record this setting in the store as the location of its output. The store's folder is chosen once. If two nodes
    have different settings, the node that started last wins."""
    wanted = str(output_location(setting, None)) if setting and "://" not in setting else setting
    while True:
        document = await store.documents.get_document(KIND, ID)
        found = _owner(document)
        if found.output == wanted and (found.folder or not wanted):
            return found
        owner = Owner(found.folder or ids.token(), wanted)
        body = json.dumps({"folder": owner.folder, "output": owner.output})
        if (await store.documents.put_document(KIND, ID, body, version=document.version if document else 0)).accepted:
            return owner


def _owner(document: Document | None) -> Owner:
    if document is None:
        return Owner("")
    body = json.loads(document.body)
    folder, output = (body.get("folder"), body.get("output")) if isinstance(body, dict) else (None, None)
    if not (isinstance(folder, str) and _FOLDER.fullmatch(folder) and isinstance(output, str)):
        raise StoreError(f"document {KIND}/{ID}: expected a folder of 32 hexadecimal digits and an output, got others")
    return Owner(folder, output)


class NodeOutput(NamedTuple):
    """A node's spool and the output store behind it, both of one store."""

    spool: Spool
    outputs: OutputStore


async def open_node_output(settings: Settings, url: str | None, store: Store, ids: Ids) -> NodeOutput:
    """Return the spool and the output store that the settings name, for the store at this URL (None: no address).

    This records the location of the output in the store. It creates and reads nothing else yet.
    """
    owner = await claim_output(store, settings.output, ids)
    return NodeOutput(Spool(spool_folder(settings.spool, url)), OutputStore(owner.location(settings.output, url)))
