"""Signs on users without a password: an identity provider proves their e-mail address, which is the user's name.

The proof is an ID token of OpenID Connect. It must be signed in one of three ways, with a key that the provider
publishes. It must be made by this provider for this server, within the last hour, and not have expired.

The first sign-on binds the user to the subject that the provider knows them by. If their address is given to somebody
else later, that person is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from onthedot.access import sessions, users
from onthedot.access.keys import too_many_conflicts
from onthedot.access.permissions import NAME
from onthedot.access.sessions import Session
from onthedot.clock import SECOND, Micros
from onthedot.ids import Ids, RandomIds
from onthedot.model.errors import LoginRefused, OnTheDotError
from onthedot.stores.protocol import Store

if TYPE_CHECKING:
    from joserfc.jwk import KeySet


# ── ID tokens. Pure ─────────────────────────────────────────────────────────────────────────────────────────────────


ALGORITHMS = ("RS256", "PS256", "ES256")
LONGEST_TOKEN = 16_384
"""Most characters of a token."""
OLDEST: Micros = 3_600 * SECOND
"""Oldest token that is accepted. Used tokens are remembered for longer than that."""
LEEWAY: Micros = 60 * SECOND
"""Largest difference between the provider's clock and the store's."""
_LEAST_MODULUS = 342  # base64 characters of the modulus of an RSA key of 2,048 bits


class Provider(NamedTuple):
    """An identity provider: its issuer, exactly as its tokens name it, and the client id of this server."""

    issuer: str
    client: str


class Person(NamedTuple):
    """The person that a token is about: the subject at the provider, which never changes, and the e-mail address."""

    subject: str
    email: str


class KeyMissing(OnTheDotError):
    """The key of a token is not known. It may be a new one."""


def usable_keys(published: Any) -> KeySet:
    """The keys of a JWK set that can verify tokens: public keys for signatures, long enough. Leaves out all others.
    Raise `ValueError` if none is left."""
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet, import_key

    found = []
    keys = published.get("keys") if isinstance(published, dict) else None
    for key in keys if isinstance(keys, list) else []:
        if isinstance(key, dict) and _is_fit(key):
            try:
                found.append(import_key(key))
            except (JoseError, ValueError, TypeError):
                continue  # an unknown kind, or broken: the other keys still count
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
    """Verify a token, and return the person that it is about. Raise `LoginRefused` with the reason if the token is not
    valid, and `KeyMissing` if it names a key that is not among these."""
    from joserfc import jwt
    from joserfc.errors import InvalidKeyIdError, JoseError

    if len(text) > LONGEST_TOKEN or not text.isascii():
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
    """Every problem with a token whose signature is valid."""
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
    """Read a time of a token, which is in seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**40:
        return None
    return round(value * SECOND)


def _refused(provider: Provider, problem: str) -> LoginRefused:
    expected = f"expected one that {provider.issuer} has made for {provider.client}"
    return LoginRefused(f"id_token: {expected}, got one that {problem}")


# ── sign-on ─────────────────────────────────────────────────────────────────────────────────────────────────────────


USED = "id_token"
"""The kind of the documents of used tokens. They are deleted after half a day."""
_TRIES = 10


async def sign_on(
    store: Store,
    text: str,
    person: Person,
    issuer: str,
    *,
    source: str = "",
    now: Micros | None = None,
    ids: Ids | None = None,
) -> Session:
    """Open a session for the person that this token is about. Raise `LoginRefused` if there is no such user, if the
    user is bound to somebody else, or if the token was used before."""
    await _bound(store, person, issuer, write=False)
    signed, _, _ = text.rpartition(".")  # without the signature: an elliptic-curve signature has a second valid form
    digest = hashlib.sha256(signed.encode()).hexdigest()
    mark = json.dumps(
        {"by": (ids or RandomIds()).token()}
    )  # random, so that only one of two equal requests is accepted
    if not (await store.documents.put_document(USED, digest, mark, version=0)).accepted:
        raise LoginRefused("id_token: expected one that was not used yet, got one that was; sign on again")
    user = await _bound(store, person, issuer, write=True)
    return await sessions.open_session(
        store, user.name, user=user.name, epoch=user.epoch, source=source, now=now, ids=ids
    )


async def _bound(store: Store, person: Person, issuer: str, *, write: bool) -> users.User:
    """Return the user of this person. With `write` the user is bound to the person."""
    for _ in range(_TRIES):
        found = await store.documents.get_document(users.KIND, person.email)
        user = None if found is None else users.read_user(found)
        if found is None or user is None or user.disabled or not user.signs_on:
            raise _nobody(person)
        if (user.issuer, user.subject) == (issuer, person.subject):
            return user
        if user.subject:
            raise _nobody(person)
        if not write:
            return user
        bound = replace(user, issuer=issuer, subject=person.subject)
        if (
            await store.documents.put_document(users.KIND, user.name, users.write_user(bound), version=found.version)
        ).accepted:
            return bound
    raise too_many_conflicts(f"user {person.email}")


def _nobody(person: Person) -> LoginRefused:
    return LoginRefused(
        f"id_token: expected a user who signs on as {person.email}, found none that may sign in; "
        "'onthedot users create NAME --sign-on' makes one"
    )
