"""Composio for the local world: connected accounts, links with a page to agree on, sessions and their MCP servers.

It enforces the limits that Composio documents: a link's ten minutes, requests a minute, the states in which an account
can be revoked. Accounts and sessions are kept in a file: a world that comes up again knows what was connected in it.

Source: Composio's API reference, version 3.1 ("connected accounts", "tool router"), "Rate limits", and its guides
"Connected Accounts" and "Using sessions via MCP".
"""

import html
import json
import secrets
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from hermesops.localcloud.vendors.composio.mcp_server import McpServer
from hermesops.localcloud.world.files import read_object, write_private
from hermesops.model.connections.service import SERVICES

PREFIX = "/composio"
LINK_S = 600.0
_WINDOW_S = 60.0
_KEPT = 5_000
"""Accounts, and sessions, that are kept; older ones are forgotten."""

_TOOLKITS = frozenset(service.slug for service in SERVICES)
"""Each has a configuration, named ``ac_TOOLKIT``."""

_REVOCABLE = frozenset({"ACTIVE", "REVOKED"})
_UNREVOCABLE_TOOLKITS = frozenset({"airtable"})


@dataclass
class Account:
    """An account of a service that a user connected."""

    id: str
    user: str
    toolkit: str
    auth_config: str
    callback_url: str
    expires_at: float
    status: str = "INITIATED"
    token: str = field(default_factory=lambda: f"oauth-{secrets.token_hex(16)}", repr=False)


class LocalComposio:
    """The Composio of one world.

    Args:
        url: Its own, without the API's path.
        key: The project's key.
        most: Requests a minute.
        clock: Seconds since 1970.
        file: Where accounts and sessions are kept; ``None`` for nowhere.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str,
        most: int = 2_000,
        clock: Callable[[], float] = time.time,
        file: Path | None = None,
    ) -> None:
        self.url = url
        self.key = key
        self.most = most
        self.clock = clock
        self.accounts: dict[str, Account] = {}
        self.sessions: dict[str, McpServer] = {}
        self.revoked: list[str] = []
        self.requests: Counter[str] = Counter()
        self._links: dict[str, str] = {}
        self._recent: deque[float] = deque()
        self.file = file
        self._read()

    def routes(self) -> list[Route]:
        """Routes of the stand-in, to be mounted below its prefix."""
        api = "/api/v3.1"
        return [
            Route(f"{api}/connected_accounts/link", self._keyed(self._link), methods=["POST"]),
            Route(f"{api}/connected_accounts", self._keyed(self._list), methods=["GET"]),
            Route(f"{api}/connected_accounts/{{id}}/revoke", self._keyed(self._revoke), methods=["POST"]),
            Route(f"{api}/connected_accounts/{{id}}", self._keyed(self._get), methods=["GET"]),
            Route(f"{api}/connected_accounts/{{id}}", self._keyed(self._delete), methods=["DELETE"]),
            Route(f"{api}/tool_router/session", self._keyed(self._open_session), methods=["POST"]),
            Route(f"{api}/tool_router/session/{{id}}", self._keyed(self._end_session), methods=["DELETE"]),
            Route("/mcp/{id}", self._keyed(self._mcp), methods=["GET", "POST", "DELETE"]),
            Route("/link/{token}", self._ask, methods=["GET"]),
            Route("/link/{token}", self._choose, methods=["POST"]),
        ]

    def expire(self, account: str) -> None:
        """Have a service take an account's tokens no more."""
        self.accounts[account].status = "EXPIRED"
        self._keep()

    def agree(self, url: str, *, is_agreed: bool = True) -> str:
        """Go through a link as a person does; the address to which the browser comes back."""
        token = url.rpartition("/")[2]
        account = self.accounts[self._links.pop(token)]
        if account.expires_at < self.clock():
            account.status = "EXPIRED"
        else:
            account.status = "ACTIVE" if is_agreed else "FAILED"
        self._keep()
        status = "success" if account.status == "ACTIVE" else "failed"
        joint = "&" if urlsplit(account.callback_url).query else "?"
        return f"{account.callback_url}{joint}{urlencode({'status': status, 'connected_account_id': account.id})}"

    def _keyed(self, answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def keyed(request: Request) -> Response:
            self.requests[request.method] += 1
            if not secrets.compare_digest(request.headers.get("x-api-key", ""), self.key):
                return _refusal(HTTPStatus.UNAUTHORIZED, "Invalid API key")
            now = self.clock()
            while self._recent and self._recent[0] <= now - _WINDOW_S:
                self._recent.popleft()
            if len(self._recent) >= self.most:
                oldest = self._recent[0] if self._recent else now
                wait = str(max(1, round(oldest + _WINDOW_S - now)))
                body = {"message": f"Rate limit exceeded. Limit: {self.most} requests per minute"}
                return JSONResponse(body, HTTPStatus.TOO_MANY_REQUESTS, {"retry-after": wait})
            self._recent.append(now)
            return await answer(request)

        return keyed

    async def _link(self, request: Request) -> Response:
        body = await request.json()
        prefix, _, toolkit = body["auth_config_id"].partition("_")
        if prefix != "ac" or toolkit not in _TOOLKITS:
            return _refusal(HTTPStatus.BAD_REQUEST, "Auth config not found")
        id_, token = f"ca_{secrets.token_hex(8)}", f"lk_{secrets.token_hex(12)}"
        until = self.clock() + LINK_S
        self.accounts[id_] = Account(id_, body["user_id"], toolkit, body["auth_config_id"], body["callback_url"], until)
        self._links[token] = id_
        self._keep()
        answer = {
            "connected_account_id": id_,
            "link_token": token,
            "redirect_url": f"{self.url}/link/{token}",
            "expires_at": datetime.fromtimestamp(until, UTC).isoformat(),
        }
        return JSONResponse(answer, HTTPStatus.CREATED)

    async def _get(self, request: Request) -> Response:
        account = self._account(request)
        return JSONResponse(_shown(account)) if account else _refusal(HTTPStatus.NOT_FOUND, "Not found")

    async def _list(self, request: Request) -> Response:
        users = request.query_params.getlist("user_ids")
        listed = [_shown(account) for account in self.accounts.values() if not users or account.user in users]
        return JSONResponse({"items": listed, "total_pages": 1, "next_cursor": None})

    async def _revoke(self, request: Request) -> Response:
        account = self._account(request)
        if account is None:
            return _refusal(HTTPStatus.NOT_FOUND, "Not found")
        if account.toolkit in _UNREVOCABLE_TOOLKITS:
            return _refusal(HTTPStatus.BAD_REQUEST, "Revoke is not supported for this toolkit")
        if account.status not in _REVOCABLE:
            return _refusal(HTTPStatus.CONFLICT, "Connection is not in a revokable state")
        tokens = ["access_token"] if account.status == "ACTIVE" else []
        account.status = "REVOKED"
        self.revoked.append(account.id)
        self._keep()
        return JSONResponse({"revoked_tokens": tokens, "connected_account": {"id": account.id, "status": "REVOKED"}})

    async def _delete(self, request: Request) -> Response:
        account = self._account(request)
        if account is None:
            return _refusal(HTTPStatus.NOT_FOUND, "Not found")
        del self.accounts[account.id]
        self._keep()
        return JSONResponse({"success": True})

    async def _open_session(self, request: Request) -> Response:
        body = await request.json()
        accounts = {toolkit: tuple(ids) for toolkit, ids in body["connected_accounts"].items()}
        for id_ in (id_ for ids in accounts.values() for id_ in ids):
            account = self.accounts.get(id_)
            if account is None or account.user != body["user_id"]:
                return _refusal(HTTPStatus.BAD_REQUEST, "Connected account not found")
        id_ = f"trs_{secrets.token_hex(8)}"
        self.sessions[id_] = McpServer(body["user_id"], accounts)
        self._keep()
        answer = {"session_id": id_, "mcp": {"type": "http", "url": f"{self.url}/mcp/{id_}"}, "tool_router_tools": []}
        return JSONResponse(answer, HTTPStatus.CREATED)

    async def _end_session(self, request: Request) -> Response:
        if self.sessions.pop(request.path_params["id"], None) is None:
            return _refusal(HTTPStatus.NOT_FOUND, "Not found")
        self._keep()
        return JSONResponse({"success": True})

    async def _mcp(self, request: Request) -> Response:
        server = self.sessions.get(request.path_params["id"])
        return await server.answer(request) if server else _refusal(HTTPStatus.NOT_FOUND, "Session not found")

    async def _ask(self, request: Request) -> Response:
        account = self.accounts.get(self._links.get(request.path_params["token"], ""))
        if account is None:
            return HTMLResponse("<p>This link is not valid any more.", HTTPStatus.NOT_FOUND)
        return HTMLResponse(_page(account), headers={"content-security-policy": "default-src 'none'"})

    async def _choose(self, request: Request) -> Response:
        token = request.path_params["token"]
        if token not in self._links:
            return HTMLResponse("<p>This link is not valid any more.", HTTPStatus.NOT_FOUND)
        is_agreed = b"agree=yes" in await request.body()
        return RedirectResponse(self.agree(f"{self.url}/link/{token}", is_agreed=is_agreed), HTTPStatus.SEE_OTHER)

    def _account(self, request: Request) -> Account | None:
        return self.accounts.get(request.path_params["id"])

    def _read(self) -> None:
        kept = (read_object(self.file) if self.file else None) or {"accounts": {}, "sessions": {}, "links": {}}
        self.accounts = {id_: Account(**account) for id_, account in kept["accounts"].items()}
        self._links = dict(kept["links"])
        for id_, session in kept["sessions"].items():
            accounts = {toolkit: tuple(ids) for toolkit, ids in session["accounts"].items()}
            self.sessions[id_] = McpServer(session["user"], accounts)

    def _keep(self) -> None:
        for objects in (self.accounts, self.sessions, self._links):
            while len(objects) > _KEPT:
                del objects[next(iter(objects))]
        if self.file:
            accounts = {id_: asdict(account) for id_, account in self.accounts.items()}
            sessions = {id_: {"user": own.user, "accounts": own.accounts} for id_, own in self.sessions.items()}
            kept = {"accounts": accounts, "sessions": sessions, "links": self._links}
            write_private(self.file, json.dumps(kept).encode())


def _shown(account: Account) -> dict[str, Any]:
    """An account as Composio shows it: with the tokens of its service."""
    val = {"status": account.status, "access_token": account.token, "refresh_token": f"r-{account.token}"}
    return {
        "id": account.id,
        "status": account.status,
        "toolkit": {"slug": account.toolkit},
        "auth_config": {"id": account.auth_config, "auth_scheme": "OAUTH2", "is_disabled": False},
        "user_id": account.user,
        "is_disabled": False,
        "requested_scopes": [f"{account.toolkit}.read"],
        "state": {"authScheme": "OAUTH2", "val": val},
        "data": val,
    }


def _page(account: Account) -> str:
    title = html.escape(account.toolkit)
    return (
        f'<!doctype html><html lang="en"><title>{title}</title><h1>{title} of the local world</h1>'
        "<p>May your agent use this account?</p>"
        '<form method="post"><button name="agree" value="yes">Agree</button> '
        '<button name="agree" value="no">Refuse</button></form>'
    )


def _refusal(status: HTTPStatus, words: str) -> JSONResponse:
    return JSONResponse({"error": {"message": words, "status": status.value}}, status)
