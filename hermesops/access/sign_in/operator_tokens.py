"""Verifies ID tokens of operators, and names the operator with the role that the issuer's groups give.

The served console verifies them when somebody signs in, and workers verify them again before they carry out a request:
the console's process vouches for nobody.

Source: OpenID Connect Core 1.0, sections 2 (ID token) and 3.1.3.7 (its validation), 5.1 (``email_verified``).
"""

import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from hermesops.access.sign_in.signed_tokens import InvalidTokenError, SignedTokens
from hermesops.model.access.console_operator import ConsoleOperator, Groups

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}(@[A-Za-z0-9.-]{1,128})?")
"""Of audit entries: no colon, so that a name cannot look like another proof, and no blank."""

_MOST_GROUPS = 1_000
_LONGEST_SUBJECT = 255
_EMAIL = "email"


class NotAllowedError(InvalidTokenError):
    """The token names a person who may not use the console."""


@dataclass(frozen=True)
class OperatorClaims:
    """The settings by which a token's claims are read.

    Attributes:
        client_id: The one audience.
        name_claim: The claim that names the person in audit entries.
        groups_claim: The claim with the person's groups.
        groups: Groups that give a role.
        allowed: Names of the only people who may sign in; empty for everybody with a role.
    """

    client_id: str
    name_claim: str
    groups_claim: str
    groups: Groups
    allowed: Collection[str] = frozenset()


class OperatorTokens:
    """Verifies ID tokens of operators.

    Args:
        clock: Seconds since 1970.
    """

    def __init__(self, tokens: SignedTokens, claims: OperatorClaims, clock: Callable[[], float] = time.time) -> None:
        self._tokens = tokens
        self._claims = claims
        self._clock = clock

    async def operator_of(self, token: str, *, nonce: str | None = None, age_s: float | None = None) -> ConsoleOperator:
        """The operator whom an ID token names.

        Args:
            nonce: Of the sign-in that the token ends; ``None`` where it renews one.
            age_s: Seconds since its issue at most; ``None`` for as long as it is valid.

        Raises:
            NotAllowedError: It names a person without a role, or one who is not allowed.
            InvalidTokenError: It is malformed, expired, too old, or of another issuer, audience or sign-in.
            UnavailableError: The issuer's keys cannot be had.
        """
        claims = await self._tokens.claims_of(token)
        if not _is_for(claims, self._claims.client_id):
            raise InvalidTokenError("the token is meant for another client")
        if nonce is not None and claims.get("nonce") != nonce:
            raise InvalidTokenError("the token is of another sign-in")
        issued_at = float(claims["iat"])
        if age_s is not None and self._clock() - issued_at > age_s:
            raise InvalidTokenError("the token is too old")
        return self._named(claims, issued_at)

    def _named(self, claims: Mapping[str, Any], issued_at: float) -> ConsoleOperator:
        name, subject = claims.get(self._claims.name_claim), claims["sub"]
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise NotAllowedError(f"the issuer gives no usable name: claim {self._claims.name_claim}")
        if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_SUBJECT or not subject.isprintable():
            raise InvalidTokenError("the token names nobody")
        if self._claims.name_claim == _EMAIL and claims.get("email_verified") not in {True, "true"}:
            raise NotAllowedError("the issuer has not verified this address")
        if self._claims.allowed and name not in self._claims.allowed:
            raise NotAllowedError(f"{name} may not use the console")
        role = self._claims.groups.role_of(_groups_in(claims.get(self._claims.groups_claim)))
        if role is None:
            raise NotAllowedError(f"{name} is in no group that may use the console")
        return ConsoleOperator(name, subject, role, issued_at, _signed_in_at(claims))


def _is_for(claims: Mapping[str, Any], client_id: str) -> bool:
    """Whether a token is an ID token for this client alone; access tokens of Cognito have no audience."""
    is_id = claims.get("token_use", "id") == "id"
    return is_id and claims.get("aud") in (client_id, [client_id]) and claims.get("azp", client_id) == client_id


def _signed_in_at(claims: Mapping[str, Any]) -> float | None:
    """Claim ``auth_time``, which a renewed token keeps (OpenID Connect Core 1.0, sections 2 and 12.2)."""
    at = claims.get("auth_time")
    return float(at) if isinstance(at, int | float) and not isinstance(at, bool) else None


def _groups_in(claim: object) -> Collection[str]:
    """Names of groups in a claim: a list, as of every known issuer; nothing for anything else."""
    if not isinstance(claim, list) or len(claim) > _MOST_GROUPS:
        return ()
    return [name for name in claim if isinstance(name, str)]
