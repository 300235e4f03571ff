"""Identities of pipelines: OpenID Connect tokens, signed by the host of the pipeline (GitHub, GitLab, AWS …).

Source: OpenID Connect Core 1.0 §2 (claims), Discovery 1.0 §4 (where keys are), RFC 8725 (algorithms named by us alone).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.model.access.pipeline_subject import unreviewed_match
from hermesops.wire import strict_json
from hermesops.wire.foreign_text import one_line

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Asymmetric ones only: with a shared key, the verifier could also sign."""

_SKEW_S = 60
SETTINGS_HINT = Hint(("settings", "show"), ": oidc.issuer, oidc.audience, oidc.subjects")

KeySet = Callable[[], Mapping[str, Any]]
"""Fetches the issuer's keys, as a JSON Web Key Set."""


@dataclass(frozen=True)
class Pipelines:
    """Pipelines that may act in an environment.

    Attributes:
        audience: Required claim ``aud`` of tokens.
        subjects: Patterns of claim ``sub``, as ``repo:helium/hermes:ref:refs/heads/main``; * matches anything. One
            that unreviewed code matches lets nobody act.
        keys: Fetches the issuer's keys.
    """

    issuer: str
    audience: str
    subjects: Sequence[str]
    keys: KeySet

    def subject_of(self, token: str) -> str:
        """The subject of a token that may act here.

        Raises:
            RefusedError: It is not valid, or its subject may not act here.
            UnavailableError: The issuer does not answer.
        """
        import jwt  # noqa: PLC0415 - only pipelines need it

        if not (self.issuer and self.audience and self.subjects):
            raise RefusedError("no pipeline may act here: issuer, audience or subjects are not set", hint=SETTINGS_HINT)
        for pattern in self.subjects:
            if subject := unreviewed_match(pattern):
                raise RefusedError(
                    f"no pipeline may act here: {pattern!r} matches unreviewed code, as {subject}", hint=SETTINGS_HINT
                )
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
            # PyJWT's messages name claims, never the token.
            raise RefusedError(
                f"the pipeline's token is not valid: {one_line(str(error))}", hint=SETTINGS_HINT
            ) from error
        subject = str(claims["sub"])
        if not any(fnmatchcase(subject, pattern) for pattern in self.subjects):
            raise RefusedError(f"the pipeline {subject} may not act here", hint=SETTINGS_HINT)
        return subject

    def _key_of(self, token: str) -> Any:  # noqa: ANN401 - as PyJWT takes it
        import jwt  # noqa: PLC0415 - as above

        key_id = jwt.get_unverified_header(token).get("kid")
        keys = jwt.PyJWKSet.from_dict(dict(self.keys())).keys
        for key in keys:
            if key.key_id == key_id or (key_id is None and len(keys) == 1):
                return key
        raise jwt.InvalidKeyError(f"the issuer has no key {key_id}")


def keys_in(document: bytes | str) -> Mapping[str, Any]:
    """The keys in an issuer's document.

    Raises:
        UnavailableError: It is no set of keys.
    """
    try:
        return strict_json.parse_object(document)
    except strict_json.MalformedJSONError as error:
        raise UnavailableError(f"this is no list of keys: {error}", hint=SETTINGS_HINT) from error
