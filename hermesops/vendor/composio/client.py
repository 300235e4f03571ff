"""The calls of Composio's API that connections need. Each is bounded in time and size and follows no redirect.

Source: Composio's API reference, version 3.1, and its guide "Connected Accounts": a link is valid for ten minutes;
tokens are refreshed by Composio itself, and the call that was named "refresh" only began a new sign-in and is
deprecated; deleting an account does not revoke it at the service. "Rate limits": 2,000 requests a minute for an
organization in the smallest plan; 429 with ``Retry-After``.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx

from hermesops.base.network.http import client
from hermesops.errors import Hint, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.model.connections.connection import AccountStatus, VendorAccount
from hermesops.vendor.composio.answers import (
    account_in,
    browser_address_in,
    id_in,
    mcp_address_in,
    origin_of,
    time_in,
    words_in,
)
from hermesops.vendor.justavps.answer_body import AnswerBody, Deadline, UnreadableAnswerError
from hermesops.wire import strict_json

API = "https://backend.composio.dev"
"""Composio's own address."""

KEY_HEADER = "x-api-key"

_PREFIX = "/api/v3.1"
_TIME_S = 15.0
_LARGEST = 1 << 20
_LONGEST_REST_S = 600
_MOST_LISTED = 100
_HEADERS = {"accept": "application/json", "accept-encoding": "identity"}


class NoSuchAccountError(RefusedError):
    """Composio has no such account, session or configuration."""


class NotRevocableError(RefusedError):
    """The service has no way to revoke tokens, or the account is in no state for it."""


@dataclass(frozen=True)
class Link:
    """A link by which a user connects an account.

    Attributes:
        url: For the user's browser.
        account: Id of the account that it makes.
    """

    url: str = field(repr=False)
    account: str = field(repr=False)
    expires_at: datetime


@dataclass(frozen=True)
class ToolSession:
    """An agent's session: a set of connected accounts, and the MCP server that uses no others.

    Attributes:
        url: Of the MCP server; requests need the project's key.
    """

    id: str = field(repr=False)
    url: str = field(repr=False)


class Composio:
    """One project at Composio.

    Args:
        key: Reads the project's key; called for each request, since keys are rotated.
        base_url: Of the API.
        monotonic: Seconds of a clock that never goes back.
    """

    def __init__(
        self, key: Callable[[], str], base_url: str = API, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._key = key
        self._base_url = base_url.rstrip("/")
        self._monotonic = monotonic
        self._rests_until = 0.0
        self.origin = origin_of(self._base_url)

    @property
    def key(self) -> str:
        """The project's key as it is now."""
        return self._key()

    async def link(self, user: str, auth_config: str, callback_url: str) -> Link:
        """Make a link by which a user connects an account.

        Args:
            user: Composio's name of the owner.
            auth_config: Id of the service's configuration at Composio.
            callback_url: To which the browser comes back.

        Raises:
            UnknownOutcomeError: An account may have been made.
            RefusedError: Composio refuses it, as for a wrong configuration.
            UnavailableError: Composio does not answer.
        """
        body = {"user_id": user, "auth_config_id": auth_config, "callback_url": callback_url}
        answer = await self._ask("POST", "/connected_accounts/link", body)
        url = browser_address_in(answer, origin=self.origin)
        return Link(url, id_in(answer, "connected_account_id"), time_in(answer, "expires_at"))

    async def account(self, account: str) -> VendorAccount:
        """Look at a connected account; one that is not there (any more) has the status ``gone``.

        Raises:
            UnavailableError: Composio does not answer.
        """
        try:
            return account_in(await self._ask("GET", f"/connected_accounts/{_part(account)}"))
        except NoSuchAccountError:
            return VendorAccount(account, AccountStatus.GONE, "")

    async def accounts_of(self, user: str) -> tuple[VendorAccount, ...]:
        """The first hundred connected accounts of a user.

        Raises:
            UnavailableError: Composio does not answer.
        """
        answer = await self._ask("GET", f"/connected_accounts?user_ids={_part(user)}&limit={_MOST_LISTED}")
        items = answer.get("items")
        rows = items[:_MOST_LISTED] if isinstance(items, list) else []
        return tuple(account_in(row) for row in rows if isinstance(row, dict))

    async def revoke(self, account: str) -> None:
        """Revoke an account's tokens at its service; one that is revoked already stays so.

        Raises:
            NotRevocableError: The service has no way to, or the account's tokens are not valid.
            NoSuchAccountError: Composio has no such account.
            UnknownOutcomeError: It may be revoked.
            UnavailableError: Composio does not answer.
        """
        await self._ask("POST", f"/connected_accounts/{_part(account)}/revoke", {})

    async def delete(self, account: str) -> None:
        """Delete an account, with the tokens that Composio keeps; one that is not there is deleted already.

        Raises:
            UnknownOutcomeError: It may be deleted.
            UnavailableError: Composio does not answer.
        """
        await self._delete(f"/connected_accounts/{_part(account)}")

    async def open_session(self, user: str, accounts: Mapping[str, Sequence[str]]) -> ToolSession:
        """Open a session with these accounts and no others.

        The agent can neither connect accounts by itself, nor run programs at Composio, nor send requests of its own
        with a user's tokens.

        Args:
            accounts: Ids of accounts by toolkit.

        Raises:
            UnknownOutcomeError: It may have been opened.
            RefusedError: Composio refuses it.
            UnavailableError: Composio does not answer.
        """
        body = {
            "user_id": user,
            "toolkits": {"enable": sorted(accounts)},
            "connected_accounts": {toolkit: list(ids) for toolkit, ids in sorted(accounts.items())},
            "manage_connections": {"enable": False},
            "workbench": {"enable": False},
            "proxy_execute": {"enable": False},
        }
        answer = await self._ask("POST", "/tool_router/session", body)
        return ToolSession(id_in(answer, "session_id"), mcp_address_in(answer, origin=self.origin))

    async def end_session(self, session: str) -> None:
        """End a session; one that is not there has ended. Raises as ``delete``."""
        await self._delete(f"/tool_router/session/{_part(session)}")

    async def _delete(self, path: str) -> None:
        try:
            await self._ask("DELETE", path)
        except NoSuchAccountError:
            return

    async def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        if self._monotonic() < self._rests_until:
            raise UnavailableError("Composio takes no more requests for now")
        headers = {**_HEADERS, KEY_HEADER: self._key()}
        try:
            async with (
                client(timeout=httpx.Timeout(_TIME_S)) as asking,
                asking.stream(
                    method, f"{self._base_url}{_PREFIX}{path}", json=body, headers=headers, follow_redirects=False
                ) as response,
            ):
                content = await AnswerBody(response, deadline=Deadline(_TIME_S), largest=_LARGEST).whole()
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise UnavailableError(f"Composio does not answer: {type(error).__name__}") from error
        except (httpx.HTTPError, UnreadableAnswerError) as error:
            raise _lost(method, type(error).__name__) from error
        self._refuse(method, response, content)
        return _object(method, content)

    def _refuse(self, method: str, response: httpx.Response, content: bytes) -> None:
        """Raise for an answer that is no success."""
        status = response.status_code
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            return
        words = _words(content) or f"HTTP {status}"
        match status:
            case HTTPStatus.TOO_MANY_REQUESTS:
                self._rests_until = self._monotonic() + rest_of(response.headers.get("retry-after", ""))
                raise UnavailableError("Composio takes no more requests for now")
            case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
                hint = Hint(("secrets", "check", "connections.key"))
                raise RefusedError("Composio refuses connections.key", hint=hint)
            case HTTPStatus.NOT_FOUND:
                raise NoSuchAccountError("Composio has no such thing")
            case HTTPStatus.CONFLICT | HTTPStatus.BAD_REQUEST if response.url.path.endswith("/revoke"):
                raise NotRevocableError(f"Composio revokes nothing: {words}")
            case _ if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise RefusedError(f"Composio refuses: {words}")
        raise _lost(method, words)


def rest_of(retry_after: str) -> int:
    """Seconds to wait that a header ``Retry-After`` asks for, within bounds. Pure."""
    is_number = retry_after.isascii() and retry_after.isdigit() and len(retry_after) < len("1000000")
    return min(max(1, int(retry_after)), _LONGEST_REST_S) if is_number else 60


def _part(value: str) -> str:
    return quote(value, safe="")


def _lost(method: str, why: str) -> UnavailableError | UnknownOutcomeError:
    if method == "GET":
        return UnavailableError(f"Composio does not answer: {why}")
    return UnknownOutcomeError(f"Composio's answer was lost: {why}")


def _words(content: bytes) -> str:
    try:
        return words_in(strict_json.parse_object(content))
    except strict_json.MalformedJSONError:
        return ""


def _object(method: str, content: bytes) -> dict[str, Any]:
    if not content:
        return {}
    try:
        return strict_json.parse_object(content)
    except strict_json.MalformedJSONError as error:
        raise _lost(method, "malformed JSON") from error
