"""Identities of pipelines: OpenID Connect tokens, signed by the host of the pipeline (GitHub, GitLab, AWS …).

Source: OpenID Connect Core 1.0 §2 (claims), Discovery 1.0 §4 (where keys are), RFC 8725 (algorithms named by us alone).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from hermesops.base.network import web_address
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.model.access.pipeline_subject import unreviewed_match
from hermesops.wire import strict_json
from hermesops.wire.foreign_text import one_line

if TYPE_CHECKING:
    import httpx

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Asymmetric ones only: with a shared key, the verifier could also sign."""

_SKEW_S = 60
_TIME_S = 10.0
_HINT = Hint(("settings", "show"), ": oidc.issuer, oidc.audience, oidc.subjects")

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
            raise RefusedError("no pipeline may act here: issuer, audience or subjects are not set", hint=_HINT)
        for pattern in self.subjects:
            if subject := unreviewed_match(pattern):
                raise RefusedError(
                    f"no pipeline may act here: {pattern!r} matches unreviewed code, as {subject}", hint=_HINT
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
            raise RefusedError(f"the pipeline's token is not valid: {one_line(str(error))}", hint=_HINT) from error
        subject = str(claims["sub"])
        if not any(fnmatchcase(subject, pattern) for pattern in self.subjects):
            raise RefusedError(f"the pipeline {subject} may not act here", hint=_HINT)
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
        raise UnavailableError(f"this is no list of keys: {error}", hint=_HINT) from error


def published_keys(issuer: str) -> KeySet:
    """Fetches the keys that an issuer publishes, over the network."""

    def fetch() -> Mapping[str, Any]:
        if not issuer.startswith("https://"):  # without TLS, anybody in between could send other keys
            raise RefusedError(f"oidc.issuer {issuer} is no https URL", hint=_HINT)
        # In a thread with a loop of its own: the caller is not asynchronous, and a loop may run here.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(_published(issuer))).result()

    return fetch


def issued_token(url: str, bearer: str, audience: str) -> str:
    """A fresh token for this pipeline, which GitHub Actions hands out to jobs with ``id-token: write``.

    A token counts for some minutes, so one that was written to a file is old when a long job needs it.

    Args:
        url: What ``ACTIONS_ID_TOKEN_REQUEST_URL`` says.
        bearer: What ``ACTIONS_ID_TOKEN_REQUEST_TOKEN`` says.

    Raises:
        RefusedError: The URL would be asked in the clear.
        UnavailableError: No token comes.

    Source: GitHub's "OpenID Connect reference", "Using environment variables on the runner", 2026-11.
    """
    if why := web_address.exposure(url):
        raise RefusedError(f"ACTIONS_ID_TOKEN_REQUEST_URL: {why}")
    with ThreadPoolExecutor(1) as thread:  # as for keys
        return thread.submit(lambda: asyncio.run(_issued(url, bearer, audience))).result()


async def _issued(url: str, bearer: str, audience: str) -> str:
    import httpx  # noqa: PLC0415 - as above

    from hermesops.vendor.justavps.answer_body import UnreadableAnswerError  # noqa: PLC0415 - as above
    from hermesops.vendor.justavps.connections import http_client  # noqa: PLC0415 - as above

    where = httpx.URL(url).copy_merge_params({"audience": audience})
    headers = {"Authorization": f"Bearer {bearer}"}
    try:
        async with asyncio.timeout(_TIME_S), http_client(where, headers=headers) as client:
            return str(strict_json.parse_object(await _body(client, str(where)))["value"])
    except (httpx.HTTPError, strict_json.MalformedJSONError, UnreadableAnswerError, KeyError, TimeoutError) as error:
        raise UnavailableError(
            f"the pipeline gets no identity token: {type(error).__name__}",
            hint="the job needs `permissions: id-token: write`",
        ) from error


async def _published(issuer: str) -> Mapping[str, Any]:
    import httpx  # noqa: PLC0415 - only where keys are fetched

    from hermesops.vendor.justavps.answer_body import UnreadableAnswerError  # noqa: PLC0415 - as above
    from hermesops.vendor.justavps.connections import http_client  # noqa: PLC0415 - as above

    try:
        async with asyncio.timeout(_TIME_S), http_client(httpx.URL(issuer)) as client:
            configuration = keys_in(await _body(client, f"{issuer.rstrip('/')}/.well-known/openid-configuration"))
            where = str(configuration.get("jwks_uri"))
            if configuration.get("issuer") != issuer or not where.startswith("https://"):
                raise RefusedError(
                    f"{issuer} names another issuer in its configuration, or has no https URL of its keys"
                )
            return keys_in(await _body(client, where))
    except (httpx.HTTPError, httpx.InvalidURL, UnreadableAnswerError, TimeoutError) as error:
        raise UnavailableError(
            f"{issuer} does not publish its keys: {str(error) or type(error).__name__}", hint=_HINT
        ) from error


async def _body(client: "httpx.AsyncClient", url: str) -> bytes:
    from hermesops.vendor.justavps.answer_body import AnswerBody, Deadline  # noqa: PLC0415 - as above

    async with client.stream("GET", url) as answer:
        body = AnswerBody(answer.raise_for_status(), deadline=Deadline(_TIME_S), largest=strict_json.LARGEST)
        return await body.whole()
