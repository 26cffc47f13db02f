"""Which node is to plan which shard."""

from onthedot.rules.shard_owners import Candidate, Held, electable, open_to, owners

NODES = [Candidate(f"node{number}", f"inc{number}", "2025a") for number in range(8)]


def test_a_death_moves_the_shards_of_the_dead_and_no_other():
    before, after = owners(64, NODES), owners(64, NODES[1:])
    moved = [shard for shard in range(64) if before[shard] != after[shard]]
    assert moved == [shard for shard in range(64) if before[shard] == "inc0"]
    assert moved


def test_everybody_has_some_and_the_order_of_nodes_is_nothing():
    assert set(owners(64, NODES)) == {node.incarnation for node in NODES}
    assert owners(64, NODES) == owners(64, NODES[::-1])
    assert owners(3, []) == [None, None, None]


def test_a_restart_moves_nothing():
    again = [Candidate("node0", "reborn", "2025a"), *NODES]
    assert owners(64, again) == [owner if owner != "inc0" else "reborn" for owner in owners(64, NODES)]


def test_only_the_newest_zone_data_counts():
    newer = Candidate("newer", "n", "2025b")
    assert electable([*NODES, newer, Candidate("unknown", "u", "unknown")]) == [newer]
    assert set(owners(9, [*NODES, newer])) == {"n"}


def test_own_shards_at_once_others_when_they_are_left_lying():
    owned_by = ["me", "you", "you", "you"]
    terms = {0: Held("you", 100), 1: Held("you", 100), 2: Held("", 8), 3: Held("", 7)}
    assert open_to("me", owned_by, terms, now=10, patience=3) == [0, 3]
