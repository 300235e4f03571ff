"""Verifies users' tokens of the configured issuers, and names the user.

Source: RFC 9068, Amazon Cognito's developer guide, "Verifying JSON web tokens" (``token_use``, ``client_id`` of access
tokens, no ``aud``), Supabase's "JWT fields" (``aud`` authenticated).
"""

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from hermesops.access.sign_in.signed_tokens import ALGORITHMS, InvalidTokenError, SignedTokens, TrustedIssuer
from hermesops.model.ids import UserId

Kind = Literal["cognito", "supabase"]


@dataclass(frozen=True)
class Issuer:
    """An issuer of users' tokens.

    Attributes:
        issuer: Claim ``iss``.
        client_ids: Accepted in ``client_id`` (Cognito) or ``aud`` (Supabase).
        keys: Fetches the issuer's keys, as a JSON Web Key Set; raises ``UnavailableError``.
    """

    issuer: str
    kind: Kind
    client_ids: Collection[str]
    keys: Callable[[], Awaitable[Mapping[str, Any]]]
    algorithms: Collection[str] = ALGORITHMS


class Tokens:
    """Verifies tokens.

    Args:
        denied: Whether a user is refused, as one who is suspended for abuse.
        monotonic: Seconds of a clock that never goes back.
    """

    def __init__(
        self,
        issuers: Sequence[Issuer],
        denied: Callable[[UserId], bool] = lambda _user: False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        trusted = [TrustedIssuer(issuer.issuer, issuer.keys, issuer.algorithms) for issuer in issuers]
        self._issuers = {issuer.issuer: issuer for issuer in issuers}
        self._signed = SignedTokens(trusted, monotonic)
        self._denied = denied

    def is_denied(self, user: UserId) -> bool:
        """Whether a user is refused whatever they show."""
        return self._denied(user)

    async def user_of(self, token: str) -> UserId:
        """Return the user whom a valid access token names.

        Raises:
            InvalidTokenError: It is malformed, expired, of another issuer, use or client, or its user is denied.
            UnavailableError: The issuer's keys cannot be had, and none of those at hand fits.
        """
        claims = await self._signed.claims_of(token)
        user = _user_in(claims, self._issuers[claims["iss"]])
        if self._denied(user):
            raise InvalidTokenError("this account is blocked")
        return user


def _user_in(claims: Mapping[str, Any], issuer: Issuer) -> UserId:
    match issuer.kind:
        case "cognito":
            is_ours = claims.get("token_use") == "access" and claims.get("client_id") in issuer.client_ids
        case "supabase":
            audience = claims.get("aud")
            audiences = audience if isinstance(audience, list) else [audience]
            is_ours = any(isinstance(each, str) and each in issuer.client_ids for each in audiences)
            is_ours = is_ours and claims.get("role") == "authenticated"
    if not is_ours:
        raise InvalidTokenError("the token is meant for another use or client")
    try:
        return UserId(str(UUID(str(claims["sub"]))))
    except ValueError:
        raise InvalidTokenError("the token names no user") from None
