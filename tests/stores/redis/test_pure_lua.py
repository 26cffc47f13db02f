"""The pure functions of the Lua scripts compute the same as those in Python: rates, instants as text, shards."""

from __future__ import annotations

import json
import random
from importlib.resources import files
from typing import Any

import pytest

from onthedot.clock import SECOND, to_datetime
from onthedot.model.rate import LAST, RateGate, Tat, next_start
from onthedot.rules.shards import shard_of
from tests.servers.valkey import ValkeyServer

NOW = 1_767_225_600 * SECOND
EXACT = 2**53  # in the year 2255: Lua's numbers are doubles, and later instants are exact only to the second


def evaluate(server: ValkeyServer, part: str, code: str, asked: object) -> list[Any]:
    """Returns the result of this code, after a part of `lib/`, for each value of `asked`."""
    lib = files("onthedot.stores.redis.scripts").joinpath("lib")
    text = "\n".join([lib.joinpath("base.lua").read_text(), lib.joinpath(f"{part}.lua").read_text(), code])
    with server.client() as db:
        results = db.eval(text, 1, "{test}", json.dumps({"now": NOW, "asked": asked}))
    assert isinstance(results, list)
    return results


EACH = "local said = {} for place, one in ipairs(request.asked) do said[place] = %s end return said"


def rate_case(chance: random.Random) -> dict[str, Any]:
    most, per = chance.choice([1, 3, 7, 10, 1_000, 99_991]), chance.choice([1, 7, 1_000, SECOND, 3_600 * SECOND])
    start = NOW + chance.randrange(10**9)
    case: dict[str, Any] = {"most": most, "per": per, "burst": chance.choice([1, 2, 5, 1_000]), "start": start}
    if chance.random() < 0.8:
        parts = chance.choice([1, most, 13])
        ahead = chance.choice([-SECOND, 0, 1, per // most, 50 * SECOND, 10**12, LAST])
        case["tat"] = {"whole": min(LAST, start + ahead), "part": chance.randrange(parts), "parts": parts}
    if chance.random() < 0.3:
        case["granted"] = start + chance.choice([-10 * SECOND, -SECOND, -1, 0, 1, SECOND])
    return case


@pytest.mark.parametrize("seed", range(5))
def test_rates_grant_the_same_instants(valkey: ValkeyServer, seed: int):
    chance = random.Random(seed)
    cases = [rate_case(chance) for _ in range(400)]
    code = """
    local said = {}
    for place, one in ipairs(request.asked) do
      local instant, tat = next_start(one, one.tat, one.start, one.granted)
      said[place] = {instant, tat and tat.whole or false, tat and tat.part or false, tat and tat.parts or false}
    end
    return said"""
    for case, results in zip(cases, evaluate(valkey, "rates", code, cases), strict=True):
        tat = Tat(**case["tat"]) if "tat" in case else None
        gate = RateGate("r", case["most"], case["per"], case["burst"])
        instant, after = next_start(gate, tat, start=case["start"], granted_at=case.get("granted"))
        assert results[1:] == [*(after or (None, None, None))], case
        assert results[0] == instant or (instant > EXACT and abs(results[0] - instant) <= 64), case


def test_instants_have_the_same_text(valkey: ValkeyServer):
    chance = random.Random(1)
    instants = [0, 951_782_400 * SECOND, 951_868_800 * SECOND, 4_107_542_400 * SECOND, LAST, NOW + 1, NOW + SECOND - 1]
    instants += [chance.randrange(8_000 * 365 * 86_400 * SECOND // 365) for _ in range(300)]
    results = evaluate(valkey, "rates", EACH % "iso(one)", instants)
    assert results == [to_datetime(instant).isoformat() for instant in instants]


def test_buckets_belong_to_the_same_shards(valkey: ValkeyServer):
    pairs = [[bucket, shards] for shards in (1, 2, 3, 7, 64) for bucket in range(1_024)]
    results = evaluate(valkey, "nodes", EACH % "shard_of(one[1], one[2])", pairs)
    assert results == [shard_of(bucket, shards) for bucket, shards in pairs]
