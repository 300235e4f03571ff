"""Users' tokens: which name a user, and which are refused."""

import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from hermesops.access.sign_in.signed_tokens import InvalidTokenError
from hermesops.api.sign_in.tokens import Issuer, Tokens
from hermesops.errors import UnavailableError
from hermesops.model.ids import UserId

COGNITO, SUPABASE = "https://cognito.test/pool", "https://supabase.test/auth/v1"
USER = str(uuid4())


class Keys:
    """An issuer's keys, which change."""

    def __init__(self) -> None:
        self.private: dict[str, ec.EllipticCurvePrivateKey] = {}
        self.fetches = 0
        self.is_away = False

    def rotate(self, name: str) -> None:
        self.private[name] = ec.generate_private_key(ec.SECP256R1())

    async def fetch(self) -> Mapping[str, Any]:
        self.fetches += 1
        if self.is_away:
            raise UnavailableError("the issuer does not answer")
        public = [
            json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key())) | {"kid": name}
            for name, key in self.private.items()
        ]
        return {"keys": public}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def keys() -> Keys:
    keys = Keys()
    keys.rotate("k1")
    return keys


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(keys: Keys, clock: Clock) -> Tokens:
    issuers = [
        Issuer(COGNITO, "cognito", frozenset({"web"}), keys.fetch),
        Issuer(SUPABASE, "supabase", frozenset({"authenticated"}), keys.fetch),
    ]
    return Tokens(issuers, denied=lambda user: user == UserId(str(DENIED)), monotonic=clock)


DENIED = uuid4()


def token(keys: Keys, name: str = "k1", *, algorithm: str = "ES256", head: str = "", **changes: object) -> str:
    now = int(time.time())
    claims: dict[str, object] = {
        "iss": COGNITO,
        "sub": USER,
        "token_use": "access",
        "client_id": "web",
        "iat": now,
        "exp": now + 600,
    }
    claims = {key: value for key, value in (claims | changes).items() if value is not None}
    return jwt.encode(claims, keys.private[name], algorithm, {"kid": head or name})


async def test_an_access_token_of_either_issuer_names_its_user(tokens: Tokens, keys: Keys) -> None:
    assert await tokens.user_of(token(keys)) == USER
    supabase = token(keys, iss=SUPABASE, token_use=None, client_id=None, aud="authenticated", role="authenticated")
    assert await tokens.user_of(supabase) == USER


def _other_key(_keys: Keys) -> str:
    """The right key's name, and another key's signature."""
    now = int(time.time())
    claims = {"iss": COGNITO, "sub": USER, "token_use": "access", "client_id": "web", "iat": now, "exp": now + 600}
    return jwt.encode(claims, ec.generate_private_key(ec.SECP256R1()), "ES256", {"kid": "k1"})


def _none(_keys: Keys) -> str:
    return jwt.encode({"iss": COGNITO, "sub": USER}, "", "none", {"kid": "k1"})


def _shared_key(keys: Keys) -> str:
    """Signed with the public key's text as a shared secret: the classic confusion of algorithms."""
    public = keys.private["k1"].public_key()
    secret = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    head, body = (_part(part) for part in ({"alg": "HS256", "kid": "k1"}, {"iss": COGNITO, "sub": USER}))
    signature = hmac.digest(secret, f"{head}.{body}".encode(), "sha256")
    return f"{head}.{body}.{urlsafe_b64encode(signature).decode().rstrip('=')}"


def _part(value: object) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _rsa(_keys: Keys) -> str:
    return jwt.encode({"iss": COGNITO, "sub": USER}, rsa.generate_private_key(65537, 2048), "RS256", {"kid": "k1"})


REFUSED: Mapping[str, Callable[[Keys], str]] = {
    "malformed": lambda _keys: "x.y.z",
    "empty": lambda _keys: "",
    "too long": lambda _keys: "x" * 10_000,
    "of another issuer": lambda keys: token(keys, iss="https://other.test"),
    "an id token": lambda keys: token(keys, token_use="id"),
    "of another client": lambda keys: token(keys, client_id="mobile"),
    "expired": lambda keys: token(keys, exp=int(time.time()) - 120),
    "of the future": lambda keys: token(keys, iat=int(time.time()) + 600),
    "not yet valid": lambda keys: token(keys, nbf=int(time.time()) + 600),
    "without an end": lambda keys: token(keys, exp=None),
    "without a subject": lambda keys: token(keys, sub=None),
    "a subject that is no user id": lambda keys: token(keys, sub="ada"),
    "supabase's for another audience": lambda keys: token(keys, iss=SUPABASE, aud="anon"),
    "supabase's of the role anon": lambda keys: token(keys, iss=SUPABASE, aud="authenticated", role="anon"),
    "supabase's without an audience": lambda keys: token(keys, iss=SUPABASE),
    "signed with another key": _other_key,
    "unsigned": _none,
    "signed with the public key as a secret": _shared_key,
    "of another kind of key": _rsa,
    "of a key that is not there": lambda keys: token(keys, head="k9"),
    "of a denied user": lambda keys: token(keys, sub=str(DENIED)),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_every_other_token_is_refused(case: str, tokens: Tokens, keys: Keys) -> None:
    with pytest.raises(InvalidTokenError) as refused:
        await tokens.user_of(REFUSED[case](keys))
    assert USER not in str(refused.value)


async def test_a_rotated_key_is_fetched_once_and_costs_no_refusal(tokens: Tokens, keys: Keys, clock: Clock) -> None:
    assert await tokens.user_of(token(keys)) == USER
    keys.rotate("k2")
    clock.now += 31
    assert await tokens.user_of(token(keys, "k2")) == USER
    assert keys.fetches == 2 * 1
    for _ in range(50):
        with pytest.raises(InvalidTokenError, match="no such key"):
            await tokens.user_of(token(keys, head="k9"))
    assert keys.fetches == 2


async def test_an_issuer_that_is_away_keeps_the_keys_at_hand(tokens: Tokens, keys: Keys, clock: Clock) -> None:
    assert await tokens.user_of(token(keys)) == USER
    keys.is_away = True
    clock.now += 7200
    assert await tokens.user_of(token(keys)) == USER
    keys.rotate("k2")
    clock.now += 31
    with pytest.raises(UnavailableError, match="does not answer"):
        await tokens.user_of(token(keys, "k2"))


async def test_a_valid_token_is_not_refused_while_its_issuers_keys_cannot_be_had(
    tokens: Tokens, keys: Keys, clock: Clock
) -> None:
    keys.is_away = True
    for _ in range(3):
        with pytest.raises(UnavailableError, match="the issuer d"):
            await tokens.user_of(token(keys))
        clock.now += 10
    assert keys.fetches == 1, "asked once in half a minute"
    keys.is_away = False
    clock.now += 10
    assert await tokens.user_of(token(keys)) == USER
