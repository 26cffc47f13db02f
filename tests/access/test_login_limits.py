"""How often a login is looked at."""

from __future__ import annotations

import pytest

from onthedot.access import login_limits
from onthedot.access.login_limits import FOR_NAME, FROM_ADDRESS, LoginLimits
from onthedot.clock import SECOND
from onthedot.model.errors import LoginLimited
from tests.access.clocks import Turned

HERE, THERE = "192.0.2.66", "192.0.2.7"


def test_a_name_is_limited_where_it_is_tried(clock: Turned):
    limits = LoginLimits(clock)
    for _ in range(FOR_NAME):
        limits.begin("ann", HERE)
    with pytest.raises(LoginLimited, match="5 tries a minute for one name from one address, got more; try again in 60"):
        limits.begin("ann", HERE)
    limits.begin("ann", THERE)
    limits.begin("bob", HERE)
    clock.turn(60)
    limits.begin("ann", HERE)


def test_who_tries_many_names_is_limited_by_address(clock: Turned):
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


def test_what_was_refused_does_not_count(clock: Turned):
    limits = LoginLimits(clock)
    for _ in range(FOR_NAME):
        limits.begin("ann", HERE)
    for _ in range(3 * FROM_ADDRESS):
        with pytest.raises(LoginLimited, match="for one name"):
            limits.begin("ann", HERE)
    limits.begin("bob", HERE)


def test_an_address_that_can_be_chosen_is_one_with_its_neighbours(clock: Turned):
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


def test_what_strangers_make_up_fills_no_memory_and_keeps_nobody_out(clock: Turned, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(login_limits, "MOST", 50)
    limits = LoginLimits(clock)
    for number in range(500):
        limits.begin(f"user{number}", f"10.0.{number // 250}.{number % 250}")
    assert (len(limits._names), len(limits._places)) == (50, 50)
    for _ in range(FOR_NAME):
        limits.begin("ann", HERE)
    with pytest.raises(LoginLimited):
        limits.begin("ann", HERE)
