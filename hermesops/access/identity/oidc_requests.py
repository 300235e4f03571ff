"""Asks for a pipeline's token and for its issuer's keys. Loads an HTTP client, which only pipelines need.

Source: OpenID Connect Discovery 1.0 §4 (where keys are).
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from hermesops.access.identity.oidc import SETTINGS_HINT, KeySet, keys_in
from hermesops.base.network import web_address
from hermesops.errors import RefusedError, UnavailableError
from hermesops.vendor.justavps.answer_body import AnswerBody, Deadline, UnreadableAnswerError
from hermesops.vendor.justavps.connections import http_client
from hermesops.wire import strict_json

_TIME_S = 10.0


def published_keys(issuer: str) -> KeySet:
    """Fetches the keys that an issuer publishes, over the network."""

    def fetch() -> Mapping[str, Any]:
        if not issuer.startswith("https://"):  # without TLS, anybody in between could send other keys
            raise RefusedError(f"oidc.issuer {issuer} is no https URL", hint=SETTINGS_HINT)
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
            f"{issuer} does not publish its keys: {str(error) or type(error).__name__}", hint=SETTINGS_HINT
        ) from error


async def _body(client: httpx.AsyncClient, url: str) -> bytes:
    async with client.stream("GET", url) as answer:
        body = AnswerBody(answer.raise_for_status(), deadline=Deadline(_TIME_S), largest=strict_json.LARGEST)
        return await body.whole()
