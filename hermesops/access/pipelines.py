"""Identities of pipelines: OpenID Connect tokens, signed by whoever runs the pipeline (GitHub, GitLab, AWS …).

Source: OpenID Connect Core 1.0 §2 (claims), Discovery 1.0 §4 (where keys are), RFC 8725 (algorithms named by us alone).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from hermesops.errors import RefusedError, UnavailableError

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Of two keys only: with one that both sides know, whoever checks could also sign."""

_SKEW_S = 60
_TIME_S = 10.0
_HINT = "hermesops settings show: oidc_issuer, oidc_audience, oidc_subjects"

KeySet = Callable[[], Mapping[str, Any]]
"""Gets the issuer's keys, as a JSON Web Key Set."""


@dataclass(frozen=True)
class Pipelines:
    """Pipelines that may act in an environment.

    Attributes:
        issuer: Who signs their tokens.
        audience: For whom tokens must be made out.
        subjects: Patterns of whom they may be about, as ``repo:helium/hermes:ref:refs/heads/main``; * is anything.
        keys: Gets the issuer's keys.
    """

    issuer: str
    audience: str
    subjects: Sequence[str]
    keys: KeySet

    def subject_of(self, token: str) -> str:
        """Whom a token is about, who may act here.

        Raises:
            RefusedError: It does not hold, or is about somebody else.
            UnavailableError: The issuer does not answer.
        """
        import jwt  # noqa: PLC0415 - only pipelines need it

        if not (self.issuer and self.audience and self.subjects):
            raise RefusedError("no pipeline may act here: issuer, audience or subjects are not set", hint=_HINT)
        try:
            claims = jwt.decode(
                token,
                self._key_of(token),
                algorithms=list(_ALGORITHMS),
                issuer=self.issuer,
                audience=self.audience,
                leeway=_SKEW_S,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            # What PyJWT says names claims, never the token.
            raise RefusedError(f"the pipeline's token does not hold: {error}", hint=_HINT) from error
        subject = str(claims["sub"])
        if not any(fnmatchcase(subject, pattern) for pattern in self.subjects):
            raise RefusedError(f"the pipeline {subject} may not act here", hint=_HINT)
        return subject

    def _key_of(self, token: str) -> Any:  # noqa: ANN401 - as PyJWT takes it
        import jwt  # noqa: PLC0415 - as above

        wanted = jwt.get_unverified_header(token).get("kid")
        found = jwt.PyJWKSet.from_dict(dict(self.keys())).keys
        for key in found:
            if key.key_id == wanted or (wanted is None and len(found) == 1):
                return key
        raise jwt.InvalidKeyError(f"its key {wanted} is none of the issuer's")


def published_keys(issuer: str) -> KeySet:
    """The keys that an issuer publishes; asked for over the network."""

    def fetch() -> Mapping[str, Any]:
        if not issuer.startswith("https://"):  # whoever stands between could name any keys
            raise RefusedError(f"oidc_issuer {issuer} is no https URL", hint=_HINT)
        import httpx  # noqa: PLC0415 - only where keys are fetched

        try:
            with httpx.Client(timeout=_TIME_S, follow_redirects=False) as client:
                told = client.get(f"{issuer.rstrip('/')}/.well-known/openid-configuration").raise_for_status().json()
                where = str(told["jwks_uri"])
                if told.get("issuer") != issuer or not where.startswith("https://"):
                    raise RefusedError(f"{issuer} does not say of itself who it is, or shows its keys to everybody")
                keys: Mapping[str, Any] = client.get(where).raise_for_status().json()
                return keys
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise UnavailableError(f"{issuer} does not say with which keys it signs: {error}", hint=_HINT) from error
        except (ValueError, KeyError, TypeError) as error:
            raise UnavailableError(f"{issuer} answers what is no list of keys", hint=_HINT) from error

    return fetch
