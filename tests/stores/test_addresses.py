"""URLs of stores: how they are split and shown. No password ever appears in a message."""

from __future__ import annotations

import doctest

import pytest

from onthedot.model.errors import DefinitionError
from onthedot.stores import addresses
from onthedot.stores.addresses import read_number, refuse_option, refuse_url, shown_url, split_options
from onthedot.stores.connect import open_store
from onthedot.stores.postgres.connections import read_url as read_postgres
from onthedot.stores.redis.connections import read_url as read_redis


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:secret@db:5432/shop", "postgresql://ann:***@db:5432/shop"),
        ("postgresql://ann@db/shop", "postgresql://ann@db/shop"),
        ("postgresql://db/shop", "postgresql://db/shop"),
        ("postgresql://db:5432", "postgresql://db:5432"),
        ("redis://:secret@db/0", "redis://:***@db/0"),
        ("redis://ann:@db/0", "redis://ann:***@db/0"),
        # behind the question mark
        ("postgresql://ann@db/shop?password=secret", "postgresql://ann@db/shop"),
        ("postgresql://ann@db/shop?x&password=secret", "postgresql://ann@db/shop"),
        ("postgresql://ann@db/shop?", "postgresql://ann@db/shop"),
        ("postgresql://db:6432/shop?listen_url=postgresql://ann:secret@db/shop", "postgresql://db:6432/shop"),
        # sockets, several hosts, IPv6
        ("postgresql:///shop?host=/run/postgresql&password=secret", "postgresql:///shop"),
        ("postgresql://ann:secret@%2Frun%2Fpostgresql/shop", "postgresql://ann:***@%2Frun%2Fpostgresql/shop"),
        ("postgresql://ann:secret@db1:5432,db2:5433/shop", "postgresql://ann:***@db1:5432,db2:5433/shop"),
        ("postgresql://db1:5432,db2/shop", "postgresql://db1:5432,db2/shop"),
        ("postgresql://[::1]:5432/shop", "postgresql://[::1]:5432/shop"),
        ("postgresql://ann:secret@[::1/shop", "postgresql://ann:***@[::1/shop"),
        # encoded correctly, and not
        ("redis://ann:se%40%2Fcret@db/0", "redis://ann:***@db/0"),
        ("postgresql://ann:a@b:c@db/shop", "postgresql://ann:***@db/shop"),
        ("postgresql://ann:se/cret@db/shop", "postgresql://ann:***@db/shop"),
        ("postgresql://ann:1/secret@db/shop", "postgresql://ann:***@db/shop"),
        ("postgresql://ann:se?cret@db/shop?schema=jobs", "postgresql://ann:***@db/shop"),
        ("postgresql://ann:se#cret@db/shop", "postgresql://ann:***@db/shop"),
        ("postgresql://ann:se://cret@db/shop", "postgresql://ann:***@db/shop"),
        # not a URL of a store
        ("postgresql://ann:secret", "postgresql://ann:***"),
        ("postgresql:ann:secret@db/shop", "postgresql:***@db/shop"),
        ("ann:secret@db/shop", "ann:***@db/shop"),
        ("ann:se://cret@db/shop", "ann:***@db/shop"),
        ("memory:", "memory:"),
        # files have no passwords, and may have any name
        ("sqlite:///shop.db", "sqlite:///shop.db"),
        ("sqlite:////home/ann@work/a:b?c.db", "sqlite:////home/ann@work/a:b?c.db"),
        ("sqlite://ann:secret@db/shop", "sqlite://ann:***@db/shop"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str):
    assert shown_url(url) == shown


def test_our_options_are_removed_and_others_stay_unchanged():
    url = "postgresql://ann:se%40cret@%2Frun%2Fpg,db2:5433/shop?ours=1&password=a%26b&sslrootcert=%2Fca.pem"
    dsn, own = split_options(url, ["ours", "other"])
    assert dsn == "postgresql://ann:se%40cret@%2Frun%2Fpg,db2:5433/shop?password=a%26b&sslrootcert=%2Fca.pem"
    assert own == {"ours": "1"}


@pytest.mark.parametrize("place", ["db", "db:5432", "db:", "db1:1,db2:65535", "[::1]:5432", "[::1]", "%2Frun:5432", ""])
@pytest.mark.parametrize("who", ["", "ann@", "ann:secret@"])
def test_a_url_may_have_several_hosts_and_ports(who: str, place: str):
    assert split_options(f"postgresql://{who}{place}/shop", ()) == (f"postgresql://{who}{place}/shop", {})


@pytest.mark.parametrize(
    "place",
    [
        "db:port",
        "db:65536",
        "db:999999",
        "db:-1",
        "db1:5432,db2:port",
        "[::1]:port",
        "[::1]5432",
        "db:1:2",
        "[::1",
        "::1",
    ],
)
@pytest.mark.parametrize("who", ["", "ann:secret@"])
def test_invalid_hosts_and_ports_are_refused(who: str, place: str):
    with pytest.raises(DefinitionError, match=r"store URL: expected .*, got 'postgresql://.*'; mend") as refused:
        split_options(f"postgresql://{who}{place}/shop", ())
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("read", [read_postgres, read_redis])
@pytest.mark.parametrize("password", ["se/cret", "se?cret", "se#cret"])
def test_an_unencoded_password_is_refused_with_instructions(read, password: str):
    with pytest.raises(DefinitionError, match=r"in a password write / [?] # @ as %2F %3F %23 %40") as refused:
        read(f"redis://ann:{password}@db/0")
    assert "se" not in str(refused.value).partition("got ")[2].partition(";")[0]
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize("read", [read_postgres, read_redis])
def test_the_repr_of_an_address_has_no_password(read):
    assert "secret" not in repr(read("rediss://ann:secret@db/0?password=secret&listen_url=postgresql://a:secret@db"))


@pytest.mark.parametrize(
    "url",
    ["postgresq://ann:secret@db/shop", "ann:secret@db", "sqlite://ann:secret@db/shop", "memory://ann:secret@db",
     "redis://ann:secret@/0", "redis://ann:secret@db1,db2/0", "redis://ann:secret@db:port/0",
     "rediss://ann:secret@db/0?socket_timeout=secret", "rediss://ann:secret@db/0?secrets=1&unknown=secret",
     "redis://ann:secret@db/0",
     "postgresql://ann:secret@db:port/shop", "postgresql://ann:secret@/shop?host=db&port=port",
     "postgresql://ann:secret@db/shop?listen_url=postgresql://a:secret@b:port"],
)  # fmt: skip
async def test_a_url_that_cannot_be_opened_is_refused_without_its_password(url: str):
    with pytest.raises(DefinitionError) as refused:
        await open_store(url)
    assert "expected" in str(refused.value)
    assert "secret" not in str(refused.value).replace("'secrets'", "")


def test_a_number_is_that_of_the_url_or_the_default():
    assert read_number({}, "timeout", 8.0, least=0.1) == 8.0
    assert read_number({"timeout": "2.5"}, "timeout", 8.0, least=0.1) == 2.5


@pytest.mark.parametrize("text", ["", "many", "0", "-1", "1001", "nan", "inf"])
def test_an_invalid_number_is_refused(text: str):
    with pytest.raises(
        DefinitionError, match=f"option timeout: expected a number from 0.1 .*, got {text!r}; change it"
    ):
        read_number({"timeout": text}, "timeout", 8.0, least=0.1)


def test_a_refusal_says_what_was_expected_found_and_what_to_do():
    with pytest.raises(DefinitionError) as option:
        refuse_option("schema", "a name", "1")
    assert str(option.value) == (
        "store URL, option schema: expected a name, got '1'; change it, or leave it out for the default"
    )
    with pytest.raises(DefinitionError) as url:
        refuse_url("redis://a:b@c", "one host", todo="name the primary")
    assert str(url.value) == "store URL: expected one host, got 'redis://a:***@c'; name the primary"


def test_the_docstring_examples_are_right():
    assert doctest.testmod(addresses).attempted
    assert not doctest.testmod(addresses).failed
