"""Just before the start of a task: arguments are checked again, secrets are looked up, and both are filled in."""

from __future__ import annotations

import base64

import pytest

from onthedot.model.errors import ArgumentsError, UnknownSecret
from onthedot.model.job import Job
from onthedot.model.run import Lease
from onthedot.model.task import Command, Param
from onthedot.runners.secrets import Secrets
from onthedot.runners.task_filler import TaskFiller, secrets_of
from onthedot.stores.memory import MemoryStore
from onthedot_verify.contract import Workbench

KEY = base64.b64encode(bytes(32)).decode()
JOB = Job(
    name="job",
    task=Command(argv=("backup", "${{ params.where }}"), env={"TOKEN": "${{ secrets.TOKEN }}"}),
    params=(Param(name="where", default="there"),),
)


async def lease_of(job: Job, args: str | None = None) -> Lease:
    bench = Workbench(MemoryStore())
    record = (await bench.put(job)).record
    await bench.submit(record, args=args)
    asked = await bench.reserve(await bench.node(), seats=1, tasks=frozenset({"command"}))
    [lease] = asked.armed
    return lease


async def test_defaults_arguments_and_secrets_are_filled_in():
    filling = TaskFiller(secrets_of(MemoryStore().documents, environment={"OTD_SECRET_TOKEN": "hush"}))
    task, secrets = await filling(await lease_of(JOB))
    assert (task, secrets) == (Command(argv=("backup", "there"), env={"TOKEN": "hush"}), ("hush",))
    task, _ = await filling(await lease_of(JOB, '{"where":"here"}'))
    assert task == Command(argv=("backup", "here"), env={"TOKEN": "hush"})


@pytest.mark.parametrize("args", ['{"where":3}', '{"other":"x"}', "[1]", '"text"', "null"])
async def test_arguments_of_a_stored_row_are_checked_again(args: str):
    with pytest.raises(ArgumentsError, match=r"job 'job': .*expected"):
        await TaskFiller(secrets_of(MemoryStore().documents, environment={"OTD_SECRET_TOKEN": "hush"}))(
            await lease_of(JOB, args)
        )


async def test_secrets_come_from_the_namespace_of_the_job():
    job = Job(name="job", namespace="team", task=JOB.task, params=JOB.params)
    with pytest.raises(UnknownSecret, match="for namespace 'team', found none"):
        await TaskFiller(secrets_of(MemoryStore().documents, environment={"OTD_SECRET_TOKEN": "hush"}))(
            await lease_of(job)
        )


async def test_a_task_without_secrets_asks_no_provider():
    class FailingProvider:
        name = "loud"

        async def get(self, namespace: str, name: str) -> str | None:
            raise AssertionError("asked")

    plain = Job(name="job", task=Command(argv=("ls",)))
    assert await TaskFiller(Secrets([FailingProvider()]))(await lease_of(plain)) == (plain.task, ())


async def test_providers_are_asked_in_order(tmp_path):
    """First the environment, then files, the store, and providers of the program."""

    class FakeProvider:
        name = "the shelf"

        async def get(self, namespace: str, name: str) -> str | None:
            return "from the shelf"

    path = tmp_path / "TOKEN"
    environment = {"OTD_SECRETS_DIR": str(tmp_path), "OTD_SECRETS_KEY": KEY}
    secrets = secrets_of(MemoryStore().documents, [FakeProvider()], environment=environment)
    assert await secrets.resolve(["TOKEN"]) == {"TOKEN": "from the shelf"}
    path.write_text("from a file")
    path.chmod(0o600)
    assert await secrets.resolve(["TOKEN"]) == {"TOKEN": "from a file"}
    environment["OTD_SECRET_TOKEN"] = "from the environment"
    assert await secrets.resolve(["TOKEN"]) == {"TOKEN": "from the environment"}


def test_an_invalid_key_is_reported_at_the_start():
    with pytest.raises(UnknownSecret, match="expected keys of 32 bytes as base64"):
        secrets_of(MemoryStore().documents, environment={"OTD_SECRETS_KEY": "hush"})
