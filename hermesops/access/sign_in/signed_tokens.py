"""Verifies tokens of the configured issuers: their signature, their time and their issuer, and not their purpose.

Source: RFC 8725 (algorithms are named by the verifier), RFC 7517 (keys).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jwt

from hermesops.errors import UnavailableError

KEY_TYPES: Mapping[str, str] = {"RS256": "RSA", "ES256": "EC"}
"""Type of key of each accepted algorithm. Asymmetric ones only: who holds a shared key could also sign."""

ALGORITHMS = frozenset(KEY_TYPES)

LONGEST_TOKEN = 8192
_SKEW_S = 60
_REFETCH_S = 30.0
"""Least seconds between two fetches of an issuer's keys, however many tokens name unknown ones."""

_KEYS_S = 3600.0
"""Seconds after which an issuer's keys are fetched again."""


class InvalidTokenError(Exception):
    """The token names no user here; the message may be shown, and repeats nothing of the token."""


class ExpiredTokenError(InvalidTokenError):
    """The token was valid, and has expired."""


@dataclass(frozen=True)
class TrustedIssuer:
    """An issuer of tokens.

    Attributes:
        issuer: Claim ``iss``.
        keys: Fetches the issuer's keys, as a JSON Web Key Set; raises ``UnavailableError``.
    """

    issuer: str
    keys: Callable[[], Awaitable[Mapping[str, Any]]]
    algorithms: Collection[str] = ALGORITHMS


@dataclass
class _Keys:
    """The keys of one issuer, as they were last fetched."""

    by_id: Mapping[str, jwt.PyJWK] = field(default_factory=dict)
    fetched_at: float = float("-inf")
    tried_at: float = float("-inf")
    fetching: asyncio.Lock = field(default_factory=asyncio.Lock)


class SignedTokens:
    """Verifies tokens.

    Args:
        monotonic: Seconds of a clock that never goes back.
    """

    def __init__(self, issuers: Sequence[TrustedIssuer], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._issuers = {issuer.issuer: issuer for issuer in issuers}
        self._keys = {issuer.issuer: _Keys() for issuer in issuers}
        self._monotonic = monotonic

    async def claims_of(self, token: str) -> Mapping[str, Any]:
        """The claims of a valid token, with ``exp``, ``iat``, ``iss`` and ``sub``; for what it is, the caller checks.

        Raises:
            ExpiredTokenError: It was valid, and has expired.
            InvalidTokenError: It is malformed, or of another issuer.
            UnavailableError: The issuer's keys cannot be had, and none of those at hand fits.
        """
        issuer, key_id, algorithm = self._unverified(token)
        key = await self._key(issuer, key_id)
        if key.key_type != KEY_TYPES[algorithm]:
            raise InvalidTokenError("the token's algorithm is none of its key")
        return _claims(token, key, issuer, algorithm)

    def _unverified(self, token: str) -> tuple[TrustedIssuer, str, str]:
        """Issuer, key id and algorithm that a token claims: only to choose the key that must verify it."""
        if len(token) > LONGEST_TOKEN:
            raise InvalidTokenError("the token is too long")
        try:
            header = jwt.get_unverified_header(token)
            claimed = jwt.decode(token, options={"verify_signature": False}).get("iss")
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError, AttributeError):
            raise InvalidTokenError("the token is malformed") from None
        issuer = self._issuers.get(claimed) if isinstance(claimed, str) else None
        if issuer is None:
            raise InvalidTokenError("the token is of another issuer")
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in issuer.algorithms or not isinstance(key_id, str):
            raise InvalidTokenError("the token has another algorithm, or names no key")
        return issuer, key_id, str(algorithm)

    async def _key(self, issuer: TrustedIssuer, key_id: str) -> jwt.PyJWK:
        keys = self._keys[issuer.issuer]
        is_fresh = self._monotonic() - keys.fetched_at < _KEYS_S
        if key_id not in keys.by_id or not is_fresh:
            await self._fetch(issuer, keys, key_id)
        if key_id not in keys.by_id:
            raise InvalidTokenError("the issuer has no such key")
        return keys.by_id[key_id]

    async def _fetch(self, issuer: TrustedIssuer, keys: _Keys, key_id: str) -> None:
        """Fetch the issuer's keys, at most once in ``_REFETCH_S``; those at hand stay where that fails.

        Raises:
            UnavailableError: A key is wanted that is not at hand, and the last try failed.
        """
        async with keys.fetching:
            if self._monotonic() - keys.tried_at < _REFETCH_S:
                if key_id not in keys.by_id and keys.fetched_at < keys.tried_at:
                    raise UnavailableError("the issuer did not give its keys a moment ago")
                return
            keys.tried_at = self._monotonic()
            try:
                document = await issuer.keys()
                keys.by_id = _by_id(document)
                keys.fetched_at = self._monotonic()
            except UnavailableError:
                if key_id not in keys.by_id:
                    raise


def _by_id(document: Mapping[str, Any]) -> Mapping[str, jwt.PyJWK]:
    try:
        keys = jwt.PyJWKSet.from_dict(dict(document)).keys
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError):
        raise UnavailableError("the issuer publishes no keys") from None
    return {key.key_id: key for key in keys if key.key_id and key.key_type in {"RSA", "EC"}}


def _claims(token: str, key: jwt.PyJWK, issuer: TrustedIssuer, algorithm: str) -> Mapping[str, Any]:
    try:
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=[algorithm],
            issuer=issuer.issuer,
            leeway=_SKEW_S,
            options={"require": ["exp", "iat", "iss", "sub"], "verify_aud": False},
        )
    except jwt.ExpiredSignatureError:
        raise ExpiredTokenError("the token has expired") from None
    except (jwt.PyJWTError, TypeError):  # TypeError: its algorithm is none of the key's (PyJWT 2.15)
        raise InvalidTokenError("the token is not valid") from None
    return claims
