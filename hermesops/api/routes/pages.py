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
    return _answer(request, parts.pages.index, "no-cache")


@router.get("/hermes-max/assets/{path:path}")
async def asset(path: str, request: Request, parts: Parts) -> Response:
    """Hand out a file of the page."""
    file = parts.pages.assets.get(path)
    if file is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return _answer(request, file, _YEAR)


@router.get("/health")
async def health() -> JSONResponse:
    """Answer 200 while this process serves; databases are not asked."""
    return JSONResponse({"status": "ok"})


def _answer(request: Request, file: PageFile, caching: str) -> Response:
    headers = {
        "content-security-policy": CONTENT_SECURITY_POLICY,
        "cache-control": caching,
        "cross-origin-opener-policy": "same-origin",
        "vary": "accept-encoding",
    }
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(file.content, media_type=file.media_type, headers=headers)
    return Response(file.compressed, media_type=file.media_type, headers={**headers, "content-encoding": "gzip"})
