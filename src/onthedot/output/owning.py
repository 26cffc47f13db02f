"""Whose output it is: each store has a folder of its own wherever output is kept, and says where that is.

What the store has forgotten is removed from its output; what is another store's must not be. So a place that several
may have been given (`Settings.output`) has a folder for each of them, named by an id that the store itself holds: it is
the same by whatever address a node comes to the store. Beside it is written where the output goes, for whoever only
reads.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from onthedot.ids import Ids
from onthedot.model.errors import StoreError
from onthedot.output.places import Place, output_place
from onthedot.stores.documents import Document
from onthedot.stores.protocol import Store

KIND, ID = "output", "owner"
_FOLDER = re.compile(r"[0-9a-f]{32}")


class Owner(NamedTuple):
    """A store, as owner of output: its folder, and what `Settings.output` is for its nodes (empty: the default)."""

    folder: str
    output: str = ""

    def place(self, setting: str, store: str | None) -> Place:
        """Where its output is, if the setting says so, or else where its nodes keep it.

        >>> str(Owner("0" * 32, "s3://logs/nightly").place("", "sqlite:///jobs.db"))
        's3://logs/nightly/00000000000000000000000000000000'
        """
        return output_place(setting or self.output, store, self.folder)


async def find_owner(store: Store) -> Owner:
    """What the store says; nothing is written. One that no node has said anything of has no folder yet."""
    return _owner(await store.documents.get_document(KIND, ID))


async def claim_output(store: Store, setting: str, ids: Ids) -> Owner:
    """Have the store say that its output goes where this setting says; its folder is chosen once. Of two nodes that
    say different things, the one that has started last is believed."""
    wanted = str(output_place(setting, None)) if setting and "://" not in setting else setting
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
