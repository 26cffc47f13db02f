"""What an identity provider says of somebody: ID tokens of OpenID Connect, read strictly. Pure.

How a token is signed is one of three ways, whatever it says itself; its keys are those that the provider publishes, and
never named by a token; and it is this provider's, for this server, made within the last hour, and good now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from onthedot.access.grants import NAME
from onthedot.clock import SECOND, Micros
from onthedot.model.errors import LoginRefused, OnTheDotError

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

ALGORITHMS = ("RS256", "PS256", "ES256")
MOST = 16_384
"""How long a token may be."""
OLDEST: Micros = 3_600 * SECOND
"""How long after it was made a token is taken: less than what was used is remembered."""
LEEWAY: Micros = 60 * SECOND
"""How far the provider's clock and the store's may differ."""
_LEAST_MODULUS = 342  # of an RSA key of 2,048 bits, in base64


class Provider(NamedTuple):
    """Who is believed: its issuer, exactly as its tokens name it, and the client that this server is to it."""

    issuer: str
    client: str


class Person(NamedTuple):
    """Who a token speaks of: its number with the provider, which stays, and its address, which may not."""

    subject: str
    email: str


class KeyMissing(OnTheDotError):
    """A token was signed with a key that is not known: it may be a new one."""


def usable_keys(published: Any) -> KeySet:
    """The keys of a JWK set that tokens can be checked with: public ones, long enough, for signatures. Others are left
    out; `ValueError` if none is left."""
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet, import_key

    found = []
    keys = published.get("keys") if isinstance(published, dict) else None
    for key in keys if isinstance(keys, list) else []:
        if isinstance(key, dict) and _is_fit(key):
            try:
                found.append(import_key(key))
            except (JoseError, ValueError, TypeError):
                continue  # of a kind that is not known here, or broken: the others are as good as ever
    if not found:
        raise ValueError("expected at least one key for signatures by RSA or P-256, got none")
    return KeySet(found)


def _is_fit(key: Mapping[str, Any]) -> bool:
    if key.get("use", "sig") != "sig" or key.get("alg", "RS256") not in ALGORITHMS:
        return False
    if key.get("kty") == "RSA":
        return isinstance(key.get("n"), str) and len(key["n"]) >= _LEAST_MODULUS
    return key.get("kty") == "EC" and key.get("crv") == "P-256"


def read_id_token(text: str, keys: KeySet, provider: Provider, now: Micros) -> Person:
    """Who it speaks of. `LoginRefused` for a token that is not good, with the reason; `KeyMissing` if it names a key
    that is not among these."""
    from joserfc import jwt
    from joserfc.errors import InvalidKeyIdError, JoseError

    if len(text) > MOST or not text.isascii():
        raise _refused(provider, "is no token")
    try:
        token = jwt.decode(text, keys, algorithms=list(ALGORITHMS))
    except InvalidKeyIdError:
        raise KeyMissing("id_token: it names a key that is not known") from None
    except (JoseError, ValueError, TypeError, KeyError, RecursionError):
        raise _refused(provider, "it has not signed") from None
    for problem in _problems(token.header, token.claims, provider, now):
        raise _refused(provider, problem)
    return Person(token.claims["sub"], token.claims["email"].lower())


def _problems(header: Mapping[str, Any], claims: Mapping[str, Any], provider: Provider, now: Micros) -> Iterator[str]:
    """What is wrong with a token whose signature is good."""
    if str(header.get("typ", "JWT")).lower() != "jwt" or claims.get("typ", "ID") != "ID" or "crit" in header:
        yield "is of another kind"
    if claims.get("iss") != provider.issuer:
        yield "is another issuer's"
    aud = claims.get("aud")
    audience = aud if isinstance(aud, list) else [aud]
    if provider.client not in audience or claims.get("azp", provider.client) != provider.client:
        yield "is for another client"
    if len(audience) > 1 and "azp" not in claims:
        yield "is for several clients"
    times = {name: _instant(claims.get(name)) for name in ("exp", "iat", "nbf")}
    if times["exp"] is None or times["iat"] is None or (times["nbf"] is None and "nbf" in claims):
        yield "does not say until when it is good"
    elif now >= times["exp"] + LEEWAY or now > times["iat"] + OLDEST:
        yield "is too old"
    elif now < max(times["iat"], times["nbf"] or 0) - LEEWAY:
        yield "is not good yet"
    subject, email = claims.get("sub"), claims.get("email")
    if not isinstance(subject, str) or not 0 < len(subject) <= 255:
        yield "names nobody"
    if claims.get("email_verified") is not True or not isinstance(email, str):
        yield "has no e-mail address that was verified; ask for the scope 'email'"
    elif not NAME.fullmatch(email):
        yield "has an e-mail address that no user can be called by"


def _instant(value: object) -> Micros | None:
    """A time of a token, which is in seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**40:
        return None
    return round(value * SECOND)


def _refused(provider: Provider, problem: str) -> LoginRefused:
    expected = f"expected one that {provider.issuer} has made for {provider.client}"
    return LoginRefused(f"id_token: {expected}, got one that {problem}")
