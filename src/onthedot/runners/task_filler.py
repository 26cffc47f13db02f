"""Fills in the task of a lease just before it starts: checks its arguments, and finds its secrets."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from onthedot.model.run import Lease
from onthedot.model.task import Task
from onthedot.runners.params import arguments_of, require_params, with_defaults
from onthedot.runners.secrets import DIRECTORY, EnvironmentSecrets, Keys, Provider, SecretFiles, Secrets, StoredSecrets
from onthedot.runners.task_template import Filled, fill, has_marks, secret_names
from onthedot.stores.documents import Documents

_MOST_PLAIN = 1_000

Fill = Callable[[Lease], Coroutine[Any, Any, Filled]]
"""Fills in the task of a lease. Awaited on the engine's loop, because it may read the store."""


async def as_written(lease: Lease) -> Filled:
    """Return the task as it is defined, without filling in anything."""
    return Filled(lease.record.job.task)


class TaskFiller:
    """Fills in tasks for runners. Checks the arguments once more: the job may have been edited since the run was
    submitted, and a row in a store comes from outside.

    It raises `ArgumentsError` or `UnknownSecret` if the run cannot start, and `StoreUnavailable` if the store does not
    answer.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._plain: dict[int, Task] = {}  # by identity: the runs of a job share its definition

    def _takes_nothing(self, task: Task) -> bool:
        """Return whether the task has no marks. This checks each definition only once."""
        if self._plain.get(id(task)) is task:
            return True
        if has_marks(task):
            return False
        if len(self._plain) >= _MOST_PLAIN:
            self._plain.clear()
        self._plain[id(task)] = task
        return True

    async def __call__(self, lease: Lease) -> Filled:
        job = lease.record.job
        arguments = arguments_of(lease)
        require_params(job, arguments)
        if self._takes_nothing(job.task):
            return Filled(job.task)
        values = await self._secrets.resolve(secret_names(job.task), namespace=job.namespace)
        return fill(job.task, with_defaults(job, arguments), values)


def secrets_of(
    store: Documents, others: Sequence[Provider] = (), *, environment: Mapping[str, str] | None = None
) -> Secrets:
    """The secrets of a worker: from its environment, the directory `OTD_SECRETS_DIR`, its store, and other providers.

    Raise `UnknownSecret` if the given keys are invalid. So a node with invalid keys fails at its start.
    """
    environment = os.environ if environment is None else environment
    directory = environment.get(DIRECTORY)
    files = [SecretFiles(directory)] if directory else []
    stored = StoredSecrets(store, Keys.of(environment))
    return Secrets([EnvironmentSecrets(environment), *files, stored, *others])
