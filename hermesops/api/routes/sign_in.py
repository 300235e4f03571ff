"""``/hermes-max/sign-in``: pages sign in at the issuer, and out here."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from hermesops.api.parts import Parts, refuse_foreign
from hermesops.api.sign_in.page_sessions import COOKIE, LONGEST_COOKIE, SIGN_IN_COOKIE, SIGN_IN_S
from hermesops.store.user_rows.sessions import LIFE

router = APIRouter()

CALLBACK = "/hermes-max/sign-in/callback"
_CODE = Annotated[str, Query(max_length=2048)]
_ONWARD = Annotated[str, Query(pattern=r"^/hermes-max/[A-Za-z0-9/_-]{1,200}$")]


@router.get("/hermes-max/sign-in")
async def begin_sign_in(parts: Parts, onward: _ONWARD = "/hermes-max/chat") -> Response:
    """Send the browser to the issuer."""
    url, cookie = parts.sessions.begin(onward)
    response = RedirectResponse(url, HTTPStatus.SEE_OTHER)
    _set(response, SIGN_IN_COOKIE, cookie, SIGN_IN_S)
    return response


@router.get(CALLBACK)
async def end_sign_in(
    request: Request, parts: Parts, code: _CODE = "", state: Annotated[str, Query(max_length=128)] = ""
) -> Response:
    """Begin the session of a browser that comes back from the issuer."""
    sign_in = request.cookies.get(SIGN_IN_COOKIE, "")
    cookie, onward = await parts.sessions.end_sign_in(sign_in, state, code)
    response = RedirectResponse(onward, HTTPStatus.SEE_OTHER)
    _set(response, COOKIE, cookie, int(LIFE.total_seconds()))
    _set(response, SIGN_IN_COOKIE, "", 0)
    return response


@router.post("/hermes-max/sign-out", status_code=204)
async def sign_out(request: Request, parts: Parts) -> Response:
    """End the session of this browser."""
    refuse_foreign(request, parts.origin)
    cookie = request.cookies.get(COOKIE, "")
    if 0 < len(cookie) <= LONGEST_COOKIE:
        await parts.sessions.end(cookie)
    response = Response(status_code=HTTPStatus.NO_CONTENT)
    _set(response, COOKIE, "", 0)
    return response


def _set(response: Response, name: str, value: str, life_s: int) -> None:
    response.set_cookie(name, value, max_age=life_s, path="/", secure=True, httponly=True, samesite="lax")
