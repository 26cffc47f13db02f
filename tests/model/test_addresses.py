"""Jobs may send requests to public addresses only; every spelling of an internal address is recognised."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onthedot.model.addresses import AddressRefused, Allowed, check, enveloped, read_host, read_url, why_special

NOBODY = Allowed()

INSIDE = [
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("0.0.0.0", "unspecified"),  # noqa: S104 - an address that is refused
    ("0.1.2.3", "unspecified"),
    ("10.0.0.1", "private"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.168.1.1", "private"),
    ("100.64.0.1", "private"),
    ("169.254.169.254", "link-local"),  # the metadata service of clouds
    ("224.0.0.1", "multicast"),
    ("239.255.255.255", "multicast"),
    ("255.255.255.255", "reserved"),
    ("240.0.0.1", "reserved"),
    ("192.0.0.192", "reserved"),
    ("198.18.0.1", "for benchmarks"),
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("::7f00:1", "loopback"),  # v4-compatible
    ("::ffff:127.0.0.1", "loopback"),
    ("::ffff:a9fe:a9fe", "link-local"),
    ("64:ff9b::7f00:1", "loopback"),
    ("64:ff9b::10.1.2.3", "private"),
    ("64:ff9b:1::1", "private"),
    ("2002:7f00:1::", "loopback"),
    ("2002:c0a8:101::5", "private"),
    ("2001:0:53aa:64c:0:0:0:1", "reserved"),  # Teredo
    ("2001:db8::1", "for documentation"),
    ("fc00::1", "private"),
    ("fd00:ec2::254", "private"),
    ("fe80::1", "link-local"),
    ("fec0::1", "private"),
    ("ff02::1", "multicast"),
    ("100::1", "reserved"),
    ("4000::1", "reserved"),
]


@pytest.mark.parametrize(("text", "what"), INSIDE)
def test_an_internal_address_is_refused_with_its_kind(text: str, what: str):
    assert why_special(ip_address(text)).startswith(what)
    with pytest.raises(AddressRefused, match="http_allow"):
        check("shop.example", [ip_address(text)], NOBODY)


@pytest.mark.parametrize(
    "text",
    ["1.1.1.1", "172.32.0.1", "100.128.0.1", "11.0.0.1", "2606:4700::1111", "64:ff9b::1.1.1.1", "2002:101:101::",
     "::ffff:1.1.1.1"],
)  # fmt: skip
def test_a_public_address_is_allowed(text: str):
    assert why_special(ip_address(text)) == ""
    check("shop.example", [ip_address(text)], NOBODY)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_inside_an_ipv6_address_is_recognised(address: IPv4Address):
    number = int(address)
    for prefix in (0xFFFF << 32, 0x64FF9B << 96):
        inside = IPv6Address(prefix | number)
        assert enveloped(inside) == address
        assert bool(why_special(inside)) == bool(why_special(address))
    assert bool(why_special(IPv6Address(0x2002 << 112 | number << 80))) == bool(why_special(address))


@given(st.ip_addresses())
def test_an_address_that_python_calls_special_is_never_public(address):
    if address.is_private or address.is_loopback or address.is_link_local or address.is_multicast:
        assert why_special(address) or enveloped(address) is not None


def test_a_host_with_one_internal_address_is_refused():
    with pytest.raises(AddressRefused, match=r"shop.example \(10.0.0.9\) is private"):
        check("shop.example", [ip_address("1.1.1.1"), ip_address("10.0.0.9")], NOBODY)


def test_the_operator_allows_hosts_and_networks():
    allowed = Allowed.of(["LOCALHOST.", "10.0.0.0/8", "192.168.1.7", "fd00::/8"])
    check("localhost", [ip_address("127.0.0.1"), ip_address("::1")], allowed)
    check("db.inside", [ip_address("10.9.8.7"), ip_address("::ffff:10.9.8.7"), ip_address("fd00::1")], allowed)
    check("192.168.1.7", [ip_address("192.168.1.7")], allowed)
    for address in ("127.0.0.1", "192.168.1.8", "169.254.169.254"):
        with pytest.raises(AddressRefused):
            check("other.example", [ip_address(address)], allowed)
    with pytest.raises(AddressRefused):
        check("evil.localhost", [ip_address("127.0.0.1")], allowed)  # only the exact name is allowed


@pytest.mark.parametrize("text", ["10.0.0.1/8", "300.0.0.0/8", "0x7f.1", "", "a b", "-x", "x..y"])
def test_a_bad_entry_of_the_allow_list_is_refused(text: str):
    with pytest.raises(AddressRefused, match="expected"):
        Allowed.of([text])


@pytest.mark.parametrize(
    "host",
    ["0x7f.1", "0x7f000001", "2130706433", "0177.0.0.1", "127.1", "127.0.1", "0", "127.0.0.1.1", "1.2.3.0x4", "0x",
     "127.0.0.01", "①②⑦.1", "example.1", "1.2.3.4.5."],
)  # fmt: skip
def test_addresses_in_odd_forms_are_refused(host: str):
    with pytest.raises(AddressRefused, match="expected an address"):
        read_host(host)


@pytest.mark.parametrize(
    ("host", "read"),
    [
        ("127.0.0.1.", "127.0.0.1"),
        ("１２７.0.0.1", "127.0.0.1"),  # noqa: RUF001 - full width
        ("127。0。0。1", "127.0.0.1"),
        ("ⓔxample.com", "example.com"),
        ("EXAMPLE.com.", "example.com"),
        ("straße.example", "xn--strae-oqa.example"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::ffff:7f00:1", "::ffff:127.0.0.1"),
        ("_dmarc.example", "_dmarc.example"),
    ],
)
def test_a_host_is_normalised(host: str, read: str):
    assert read_host(host) == read
    assert read_host(read) == read


@pytest.mark.parametrize(
    "host",
    ["", ".", "..", "a..b", "-a.example", "a-.example", "a" * 64, "a/b", "a%00b", "fe80::1%eth0", "::g", "☃.x\u200b",
     "a." * 127 + "com"],
)  # fmt: skip
def test_an_invalid_host_is_refused(host: str):
    with pytest.raises(AddressRefused, match="expected"):
        read_host(host)


@pytest.mark.parametrize(
    "url",
    ["", "example.com", "/x", "//example.com/", "ftp://example.com", "file:///etc/passwd", "gopher://x", "http://",
     "http:///x", "http://ann:pw@example.com", "http://ann@example.com", "http://@example.com", "http://a b/",
     "http://a\tb/", "http://example.com\\@127.0.0.1/", "http://example.com:0/", "http://example.com:99999/",
     "http://example.com:x/", "http://[::1/", "http://[fe80::1%25eth0]/", "http://exa\nmple.com/", "http://x/\r\nA: b",
     "http://0x7f.1/", "http://2130706433/"],
)  # fmt: skip
def test_an_invalid_url_is_refused(url: str):
    with pytest.raises(AddressRefused, match="expected"):
        read_url(url)


def test_no_message_contains_a_password():
    for url in ("https://ann:s3cret@example.com/", "ftp://ann:s3cret@x/", "http://ann:s3cret@[x", "http://a:s3cret@ x"):
        with pytest.raises(AddressRefused) as refused:
            read_url(url)
        assert "s3cret" not in str(refused.value)


def test_a_url_is_split_into_origin_and_path():
    target = read_url("https://Example.COM:8443/ä/%20?q=ü&r=%2F#part")
    assert target.origin == ("https", "example.com", 8443)
    assert target.path == "/%C3%A4/%20?q=%C3%BC&r=%2F"
    assert read_url("http://[::ffff:127.0.0.1]/").host == "::ffff:127.0.0.1"
    assert read_url("http://example.com?x").path == "/?x"


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str):
    for candidate in (text, f"http://{text}/", f"https://example.com/{text}"):
        try:
            target = read_url(candidate)
        except AddressRefused:
            continue
        assert target.url.isascii()
        assert read_url(target.url) == target
