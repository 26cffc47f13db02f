"""Who runs after whom, in dictionaries: what each job waits for, and what it has of it."""

from __future__ import annotations

from onthedot.after import COUNTS, After
from onthedot.clock import Micros
from onthedot.stores.values import Parent


class Dependencies:
    """The sets of all jobs that run after others."""

    def __init__(self) -> None:
        self._after: dict[int, After] = {}  # by child
        self._sets: dict[int, dict[str, Parent]] = {}  # by child: the newest run that counts, by parent
        self.children: dict[tuple[str, str], list[int]] = {}  # by namespace and name of the parent, in order

    def put(self, child_id: int, namespace: str, after: After | None) -> None:
        """A job was defined or edited: what it has of parents that stay is kept, unless other runs count now."""
        before, had = self._after.get(child_id), self._sets.get(child_id, {})
        self.drop(child_id)
        if after is None:
            return
        same = before is not None and (before.any, before.on) == (after.any, after.on)
        self._after[child_id] = after
        self._sets[child_id] = {name: had[name] for name in after.parents if same and name in had}
        for name in after.parents:
            children = self.children.setdefault((namespace, name), [])
            children.append(child_id)
            children.sort()

    def drop(self, child_id: int) -> None:
        """A job runs after nobody any more."""
        self._after.pop(child_id, None)
        self._sets.pop(child_id, None)
        for children in self.children.values():
            if child_id in children:
                children.remove(child_id)
        self.children = {parent: children for parent, children in self.children.items() if children}

    def ended(self, namespace: str, name: str, run_id: int, state: str, ended_at: Micros) -> list[int]:
        """A run of this job has ended: note it in the sets that it counts for. The jobs that are to run now."""
        children = self.children.get((namespace, name), ())
        counting = [child_id for child_id in children if state in COUNTS[self._after[child_id].on]]
        return [child_id for child_id in counting if self._completes(child_id, Parent(name, run_id, ended_at))]

    def _completes(self, child_id: int, ended: Parent) -> bool:
        after, noted = self._after[child_id], self._sets[child_id]
        if after.any:
            return True
        noted[ended.name] = ended
        if len(noted) < len(after.parents):
            return False
        noted.clear()
        return True

    def parents_of(self, child_id: int) -> list[Parent]:
        """The parents of a job, by name, and what it has of each."""
        after = self._after.get(child_id)
        return [] if after is None else [self._sets[child_id].get(name, Parent(name)) for name in after.parents]
