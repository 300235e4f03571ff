"""``/hermes-max/chat``: the chat page and its assets, and the health of this process."""

from http import HTTPStatus

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from hermesops.api.pages_served import CONTENT_SECURITY_POLICY, PageFile
from hermesops.api.parts import Parts
from hermesops.api.sign_in.page_sessions import COOKIE

router = APIRouter()

_YEAR = "public, max-age=31536000, immutable"


@router.get("/hermes-max/chat")
async def chat_page(request: Request, parts: Parts) -> Response:
    """Show the page, or sign in first."""
    if not request.cookies.get(COOKIE):
        return RedirectResponse("/hermes-max/sign-in", HTTPStatus.SEE_OTHER)
    return _answer(parts.pages.index)


@router.get("/hermes-max/assets/{name}")
async def asset(name: str, parts: Parts) -> Response:
    """Hand out a file of the page."""
    file = parts.pages.assets.get(name)
    if file is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return _answer(file)


@router.get("/health")
async def health() -> JSONResponse:
    """Say that this process serves."""
    return JSONResponse({"status": "ok"})


def _answer(file: PageFile) -> Response:
    headers = {
        "content-security-policy": CONTENT_SECURITY_POLICY,
        "cache-control": _YEAR if file.is_lasting else "no-cache",
        "cross-origin-opener-policy": "same-origin",
    }
    return Response(file.content, media_type=file.media_type, headers=headers)
