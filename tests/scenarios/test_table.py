"""For each scenario of the table, every slot and every submitted run has exactly the expected fate."""

from datetime import timedelta

import pytest

import onthedot as otd
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sqlite import SqliteStore
from tests.scenarios.kit import NOON, Between, Fate, Scenario, at, check_scenario, ran, skipped

pytestmark = pytest.mark.slow

EVERY_MINUTE = {"schedule": otd.every("1m")}
EVERY_TEN = {"schedule": otd.every("10s")}
CAREFUL = {"guarantee": "at_most_once"}
LOST = Fate("lost", "node lost", [], 1)


def running(start: float) -> Fate:
    return Fate("running", "", [start], 1)


AFTER_THE_OUTAGE = {
    660: ran(1000.5),  # the last missed slot: it waits for the first run, which was lost and is repeated
    720: running(1301),  # the first slot after the outage waits behind it
    **{60 * minute: skipped("overlap") for minute in range(13, 22)},
}

OVERLAP = {
    "a run takes five minutes and a bit: the next slot waits, those between are skipped": Scenario(
        job=EVERY_MINUTE,
        takes=300.5,
        until=1270,
        fates={
            60: ran(60),
            120: ran(360.5),  # after the end of the first run
            **{60 * minute: skipped("overlap") for minute in (3, 4, 5, 6)},
            420: ran(661),
            **{60 * minute: skipped("overlap") for minute in (8, 9, 10, 11)},
            720: ran(961.5),
            **{60 * minute: skipped("overlap") for minute in (13, 14, 15, 16)},
            1020: running(1262),
            **{60 * minute: skipped("overlap") for minute in (18, 19, 20, 21)},
        },
    ),
    "the same, and all nodes are down for ten minutes": Scenario(
        job=EVERY_MINUTE,
        takes=300.5,
        script=(at(100, "kill", "a", 600),),
        until=1310,
        fates={60: ran(60, 700), 120: skipped("missed")} | AFTER_THE_OUTAGE,
        ranges=((180, 600, 8, "missed"),),
    ),
    "the same, and all workers are down for ten minutes while a planner continues": Scenario(
        job=EVERY_MINUTE,
        takes=300.5,
        script=(at(50, "boot", "b", works=False), at(100, "kill", "a", 600)),
        until=1310,
        fates={60: ran(60, 700), **{60 * minute: skipped("missed") for minute in range(2, 11)}} | AFTER_THE_OUTAGE,
    ),
    "the gate is held during the backoff: the next slot waits for the second attempt": Scenario(
        job=EVERY_MINUTE | {"retry": otd.Retry(2, delay="90s", jitter=False)},
        fails=((60, 1),),
        until=190,
        fates={60: ran(60, 150), 120: ran(150), 180: ran(180)},
    ),
    "the gate is held during the backoff: the next slot is skipped": Scenario(
        job=EVERY_MINUTE | {"retry": otd.Retry(2, delay="90s", jitter=False), "overlap": "skip"},
        fails=((60, 1),),
        until=190,
        fates={60: ran(60, 150), 120: skipped("overlap"), 180: ran(180)},
    ),
}

EDITS = {
    "edited five seconds before a slot": Scenario(
        job=EVERY_TEN,
        script=(at(25, "put", timeout="5s"),),
        until=45,
        fates={10: ran(10), 20: ran(20), 30: ran(30), 40: ran(40)},
    ),
    "edited one second before a slot, when it is reserved": Scenario(
        job=EVERY_TEN,
        script=(at(29, "put", timeout="5s"),),
        until=45,
        fates={10: ran(10), 20: ran(20), 30: ran(30), 40: ran(40)},
    ),
    "edited to another interval, five seconds before a slot": Scenario(
        job=EVERY_TEN,
        script=(at(25, "put", schedule=otd.every("15s")),),
        until=50,
        fates={10: ran(10), 20: ran(20), 30: ran(30), 45: ran(45)},
    ),
    "edited to another interval, one second before a slot that it removes": Scenario(
        job=EVERY_TEN,
        script=(at(39, "put", schedule=otd.every("15s")),),
        until=50,
        fates={10: ran(10), 20: ran(20), 30: ran(30), 45: ran(45)},
    ),
    "paused five seconds before a slot, and resumed three seconds later": Scenario(
        job=EVERY_TEN,
        script=(at(25, "pause"), at(28, "resume")),
        unchecked_rules=("S4",),
        until=45,
        fates={10: ran(10), 20: ran(20), 30: ran(30), 40: ran(40)},
    ),
    "paused one second before a slot, and resumed two seconds later": Scenario(
        job=EVERY_TEN,
        script=(at(29, "pause"), at(31, "resume")),
        unchecked_rules=("S4",),
        until=45,
        fates={10: ran(10), 20: ran(20), 40: ran(40)},
        ranges=((30, 30, 1, "paused"),),
    ),
}

DEATHS = {
    f"{when}, {guarantee}": Scenario(
        job=EVERY_MINUTE | {"guarantee": guarantee},
        takes=1,
        script=(at(58.5, "boot", "b"), *script),
        until=130,
        fates={60: fate, 120: ran(120)},
    )
    for guarantee, armed in (("at_least_once", Fate("succeeded", "", [72.5], 2)), ("at_most_once", LOST))
    for when, script, fate in (
        ("killed 100 ms before a reserved slot", (at(59.9, "kill", "a"),), ran(60.5)),
        ("killed between arm and due", (at(59.97, "kill", "a"),), armed),
        ("killed after arm was done, before its answer", (at(59, "kill_at", "a", "arm"),), armed),
    )
} | {
    "the leader is killed right after a job due in three seconds was created": Scenario(
        nodes="ab",
        script=(at(10, "put", schedule=otd.every("1m", anchor=NOON + timedelta(seconds=13))), at(10, "kill", "a")),
        until=80,
        fates={13: ran(13), 73: ran(73)},
    ),
}

ANSWERS = {
    "the same key twice, the second time after the end": Scenario(
        takes=1,
        script=(at(5, "submit", "first", key="k"), at(20, "submit", "second", key="k")),
        until=30,
        fates={"first": ran(5)},
    ),
    "the answer of arm is lost, at most once": Scenario(
        job=EVERY_MINUTE | CAREFUL,
        script=(at(59, "lose_answer", "a", "arm"),),
        until=130,
        fates={60: ran(Between(60, 60.2)), 120: ran(120)},
    ),
    "the answer of the reserve that armed it is lost, at most once": Scenario(
        job=CAREFUL,
        script=(at(59, "lose_answer", "a", "reserve"), at(59, "submit", "x")),
        until=130,
        fates={"x": ran(Between(59, 59.2))},
    ),
    "the answer of finish is lost": Scenario(
        job=EVERY_MINUTE,
        takes=1,
        script=(at(59, "lose_answer", "a", "finish"),),
        until=130,
        fates={60: ran(60), 120: ran(120)},
    ),
    "the answer of finish is lost, and the node starts again": Scenario(
        job=EVERY_MINUTE,
        takes=1,
        script=(at(59, "kill_at", "a", "finish", 2.0),),
        until=130,
        fates={60: ran(60), 120: ran(120)},
    ),
}

TRIGGERS = {
    f"triggered at the instant of a slot, overlap {overlap}": Scenario(
        job=EVERY_MINUTE | {"overlap": overlap},
        takes=5,
        script=(at(60, "submit", "by hand", trigger="manual"),),
        until=130,
        fates={60: ran(60), "by hand": ran(second), 120: ran(120)},
    )
    for overlap, second in (("wait", 65), ("skip", 65), ("replace", 65), ("allow", 60))
}

BIG = [f"big {number}" for number in range(1000)]
LIMITS = {
    "limit 10 by key: a thousand runs of one key wait beside another key": Scenario(
        job={"concurrency": otd.Limit(10, key="tenant")},
        takes=1,
        script=(
            at(5, "submit", *BIG, tenant="big"),
            *(at(second, "submit", f"small at {second}", tenant="small") for second in (5, 5.5, 20, 60.25)),
        ),
        until=110,
        fates={name: ran(5 + number // 10) for number, name in enumerate(BIG)}
        | {f"small at {second}": ran(second) for second in (5, 5.5, 20, 60.25)},
    ),
}

TABLE = {**OVERLAP, **EDITS, **DEATHS, **ANSWERS, **TRIGGERS, **LIMITS}


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request, tmp_path):
    if request.param == "memory":
        return MemoryStore
    return lambda clock: SqliteStore.open(tmp_path / "scenario.db", clock=clock, inline=True)


@pytest.mark.parametrize("name", TABLE)
def test_every_slot_has_the_expected_fate(name, open_store):
    world = check_scenario(TABLE[name], open_store)
    if name in LIMITS:
        assert world.most_at_once() == {"big": 10, "small": 2}
