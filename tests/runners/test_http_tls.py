"""HTTP jobs over TLS: the certificate must have the name in the URL, although we connect to an address."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from onthedot.model.task import Http
from onthedot.model.verdict import OutcomeKind
from tests.runners.pages import serving
from tests.runners.test_http import fake_resolver, run_attempt

NAME = "shop.invalid"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a self-signed certificate for one name."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return path


def server_side(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_a_certificate_is_checked_against_the_name_not_the_address(certificate: Path):
    trust = ssl.create_default_context(cafile=certificate)
    with serving({"/": lambda asked: asked.answer(200)}, server_side(certificate)) as site:
        url = f"https://{NAME}:{site.port}/"
        outcome, _ = await run_attempt(Http(url=url), resolve=fake_resolver(shop_invalid="127.0.0.1"), trust=trust)
        assert outcome.kind is OutcomeKind.SUCCEEDED, outcome.error
        assert site.asked[0].headers["Host"] == f"{NAME}:{site.port}"
        for other in ("other.invalid", "127.0.0.1"):
            outcome, _ = await run_attempt(
                Http(url=f"https://{other}:{site.port}/"), resolve=fake_resolver(other_invalid="127.0.0.1"), trust=trust
            )
            assert outcome.kind is OutcomeKind.FAILED
            assert "certificate" in str(outcome.error).lower()
        assert len(site.asked) == 1


async def test_a_certificate_that_is_not_trusted_is_refused(certificate: Path):
    with serving({"/": lambda asked: asked.answer(200)}, server_side(certificate)) as site:
        outcome, _ = await run_attempt(
            Http(url=f"https://{NAME}:{site.port}/"), resolve=fake_resolver(shop_invalid="127.0.0.1")
        )
        assert "certificate" in str(outcome.error).lower()
        assert site.asked == []


async def test_plain_http_at_an_https_url_is_a_failure():
    with serving({"/": lambda asked: asked.answer(200)}) as site:
        outcome, _ = await run_attempt(Http(url=f"https://127.0.0.1:{site.port}/"))
    assert outcome.error_types[0] == "onthedot.HttpTrouble"
