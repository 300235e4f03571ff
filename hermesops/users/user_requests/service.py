"""Service of users' requests: users make and read theirs; operators list them, without their content."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hermesops.base.waiting import pause
from hermesops.errors import RefusedError
from hermesops.model.billing.user_request import RequestKind, RequestState, UserRequest
from hermesops.model.fleet.user import parse_user
from hermesops.model.ids import UserId
from hermesops.store.registry import Registry
from hermesops.store.user_rows.requests import MOST_OPEN, UserRequests

DECIDED_WITHIN_S = 4.0
"""Seconds for which an answer waits for the first decision; a page asks again for later ones."""

_LOOK_S = 0.1


class NoSuchRequestError(RefusedError):
    """The user has no such request."""


class TooManyRequestsError(RefusedError):
    """Too many requests of the user have not ended."""


@dataclass(frozen=True)
class RequestView:
    """A request as its user sees it.

    Attributes:
        url: Address of the page that the user goes to next; empty for none.
    """

    request: UserRequest
    url: str = ""


@dataclass(frozen=True)
class Requests:
    """Users' requests, as users make and read them."""

    rows: UserRequests

    async def ask(self, user_id: UserId, kind: RequestKind, client_key: str, body: Mapping[str, object]) -> RequestView:
        """Make a request, or find the one of the same key; waits some seconds for the first decision.

        Raises:
            TooManyRequestsError: See there.
            RefusedError: The key is of a request of another kind.
            UnavailableError: The database does not answer.
        """
        request = await asyncio.to_thread(self.rows.add, user_id, kind, client_key, body)
        if request is None:
            raise TooManyRequestsError(f"{MOST_OPEN} requests of yours have not ended; wait for one of them")
        until = time.monotonic() + DECIDED_WITHIN_S
        while request.state is RequestState.QUEUED and time.monotonic() < until:
            await pause(_LOOK_S)
            request = await asyncio.to_thread(self.rows.get, user_id, request.id) or request
        return await asyncio.to_thread(self._view, request)

    async def get(self, user_id: UserId, request_id: str) -> RequestView:
        """A user's request.

        Raises:
            NoSuchRequestError: See there.
        """
        request = await asyncio.to_thread(self.rows.get, user_id, request_id)
        if request is None:
            raise NoSuchRequestError("you made no such request")
        return await asyncio.to_thread(self._view, request)

    async def newest(self, user_id: UserId, kind: RequestKind) -> RequestView | None:
        """A user's last request of a kind; ``None`` where there was none."""
        request = await asyncio.to_thread(self.rows.newest, user_id, kind)
        return await asyncio.to_thread(self._view, request) if request else None

    def _view(self, request: UserRequest) -> RequestView:
        url = self.rows.answer(request).get("url")
        is_shown = request.state in {RequestState.WAITING, RequestState.DONE}
        return RequestView(request, url if is_shown and isinstance(url, str) else "")


@dataclass(frozen=True)
class RequestDirectory:
    """Users' requests, as operators see them: without their content."""

    registry: Registry

    def list(self, *, user: str = "", state: RequestState | None = None, limit: int = 50) -> Sequence[UserRequest]:
        """Requests, the newest first.

        Args:
            user: Only of this user, by id or alias.
            state: Only those; ``None`` for all.

        Raises:
            UsageError: There is no such user.
        """
        user_id = self._user_id(user) if user else None
        return self.registry.user_requests.list(user_id=user_id, state=state, limit=limit)

    def _user_id(self, text: str) -> UserId:
        named = parse_user(text)  # who has only asked to subscribe has no row among users
        return self.registry.users.resolve(text).id if named.alias else named.id
