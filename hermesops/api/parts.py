"""The services that routes call, and the user of a request."""

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from hermesops.api.sign_in.tokens import InvalidTokenError, Tokens
from hermesops.model.ids import UserId
from hermesops.store.user_rows.accounts import Accounts
from hermesops.users.chat.service import Chat


@dataclass(frozen=True)
class ApiParts:
    """Everything that routes call."""

    tokens: Tokens
    accounts: Accounts
    chat: Chat


def parts_of(request: Request) -> ApiParts:
    """The services of the application that serves this request."""
    return cast("ApiParts", request.app.state.parts)


async def current_user(request: Request, parts: Annotated[ApiParts, Depends(parts_of)]) -> UserId:
    """The user of a request: the only way from a token to a user, which each route of a user takes.

    Raises:
        InvalidTokenError: There is no valid bearer token.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise InvalidTokenError("a bearer token is required")
    return await parts.tokens.user_of(token.strip())


CurrentUser = Annotated[UserId, Depends(current_user)]
Parts = Annotated[ApiParts, Depends(parts_of)]
