"""The options of a Redis URL: what they mean, their defaults, and which are refused."""

from __future__ import annotations

import pytest

from onthedot.model.errors import DefinitionError
from onthedot.stores.addresses import exposed
from onthedot.stores.connect import has_transactions, open_store
from onthedot.stores.redis.connections import maker, read_url


def test_missing_options_have_defaults():
    address = read_url("redis://localhost")
    assert (address.tag, address.connections, address.timeout) == ("{onthedot}", 10, 8.0)


def test_our_options_are_removed_and_others_go_to_the_library():
    address = read_url("rediss://me:se%40cret@db:6380/2?prefix=shop&connections=4&timeout=2&ssl_cert_reqs=none")
    assert address.dsn == "rediss://me:se%40cret@db:6380/2?ssl_cert_reqs=none"
    assert (address.tag, address.connections, address.timeout) == ("{shop}", 4, 2.0)
    assert "cret" not in address.shown


def test_user_and_tls_are_passed_to_the_library():
    made = maker(read_url("rediss://me:se%40cret@db:6380/2"))()
    assert (made.username, made.password, made.db, made.host, made.port) == ("me", "se@cret", 2, "db", 6380)  # type: ignore[attr-defined]
    assert type(made).__name__ == "SSLConnection"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:6380", "127.3.2.1", "[::1]:6379"])
def test_tls_is_not_required_on_this_machine(host: str):
    assert read_url(f"redis://{host}/0").dsn == f"redis://{host}/0"
    assert exposed(f"redis://{host}/0") == ""


@pytest.mark.parametrize("host", ["db", "10.0.0.7:6380", "[fe80::1]", "localhost.example.org"])
def test_plain_text_to_another_machine_must_be_explicit(host: str):
    with pytest.raises(DefinitionError) as refused:
        read_url(f"redis://me:secret@{host}/0")
    assert str(refused.value) == (
        f"store URL: expected TLS for a server on another machine, got 'redis://me:***@{host}/0'; write "
        f"'rediss://me:***@{host}/0' if the server speaks TLS, or, only in a network that you trust, add '?tls=off'"
    )
    with pytest.raises(DefinitionError, match="add '&tls=off'"):
        read_url(f"redis://{host}/0?prefix=shop")
    meant = f"redis://{host}/0?prefix=shop&tls=off"
    assert read_url(meant).dsn == f"redis://{host}/0"
    assert exposed(meant).startswith("not encrypted")
    assert exposed(f"rediss://{host}/0") == ""
    assert exposed(f"rediss://{host}/0?ssl_cert_reqs=none").startswith("encrypted, but another server can pretend")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://", "expected 'redis://host:6379/0'"),
        ("redis://localhost?prefix=a{b", "option prefix: expected a name of letters"),
        ("redis://localhost?connections=1", "option connections: expected a number from 2"),
        ("redis://localhost?timeout=soon", "option timeout: expected a number"),
        ("redis://db?tls=on", "option tls: expected 'off'; for TLS, write 'rediss://', got 'on'"),
    ],
)
def test_a_bad_url_is_refused_with_a_reason(url: str, message: str):
    with pytest.raises(DefinitionError, match=message):
        read_url(url)


async def test_an_unknown_scheme_names_redis():
    with pytest.raises(DefinitionError, match="did you mean 'redis'"):
        await open_store("reddis://host/0")


@pytest.mark.parametrize("url", ["redis://host/0", "rediss://host/0"])
def test_a_redis_store_has_no_handler_transactions(url: str):
    assert not has_transactions(url)
