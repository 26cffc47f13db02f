"""Login limits: how many tries a minute one name and one address have."""

from __future__ import annotations

import pytest

from onthedot.access import login_limits
from onthedot.access.login_limits import FOR_NAME, FROM_ADDRESS, LoginLimits
from onthedot.clock import SECOND
from onthedot.model.errors import LoginLimited
from tests.access.clocks import ManualClock

HERE, THERE = "192.0.2.66", "192.0.2.7"


def test_tries_for_one_name_are_limited_per_address(clock: ManualClock):
    limits = LoginLimits(clock)
    for _ in range(FOR_NAME):
        limits.begin("ann", HERE)
    with pytest.raises(LoginLimited, match="5 tries a minute for one name from one address, got more; try again in 60"):
        limits.begin("ann", HERE)
    limits.begin("ann", THERE)
    limits.begin("bob", HERE)
    clock.turn(60)
    limits.begin("ann", HERE)


def test_tries_for_many_names_are_limited_per_address(clock: ManualClock):
    limits = LoginLimits(clock)
    for number in range(FROM_ADDRESS):
        limits.begin(f"user{number}", HERE)
        clock.turn(1)
    with pytest.raises(LoginLimited, match="30 tries a minute from one address, got more; try again in 30 s") as told:
        limits.begin("another", HERE)
    assert told.value.again_in == 30 * SECOND
    limits.begin("another", THERE)
    clock.turn(30)
    limits.begin("another", HERE)


def test_refused_tries_do_not_count(clock: ManualClock):
    limits = LoginLimits(clock)
    for _ in range(FOR_NAME):
        limits.begin("ann", HERE)
    for _ in range(3 * FROM_ADDRESS):
        with pytest.raises(LoginLimited, match="for one name"):
            limits.begin("ann", HERE)
    limits.begin("bob", HERE)


def test_addresses_of_one_ipv6_network_share_a_limit(clock: ManualClock):
    limits = LoginLimits(clock)
    for number in range(FOR_NAME):
        limits.begin("ann", f"2001:db8:0:1::{number}")
    with pytest.raises(LoginLimited):
        limits.begin("ann", "2001:db8:0:1:ffff::7")
    limits.begin("ann", "2001:db8:0:2::7")
    for form in ("192.0.2.7", "::ffff:192.0.2.7", "192.0.2.7", "::ffff:192.0.2.7", "192.0.2.7"):
        limits.begin("ann", form)
    with pytest.raises(LoginLimited):
        limits.begin("ann", "::ffff:192.0.2.7")


def test_made_up_names_do_not_fill_memory_or_lock_users_out(clock: ManualClock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(login_limits, "MOST", 50)
    limits = LoginLimits(clock)
    for number in range(500):
        limits.begin(f"user{number}", f"10.0.{number // 250}.{number % 250}")
    assert (len(limits._names), len(limits._places)) == (50, 50)
    for _ in range(FOR_NAME):
        limits.begin("ann", HERE)
    with pytest.raises(LoginLimited):
        limits.begin("ann", HERE)
