"""Bodies of calls, before the SDK reads them."""

from http import HTTPStatus

from a2a.server.jsonrpc_models import JSONParseError
from a2a.server.request_handlers.response_helpers import build_error_response
from a2a.utils.constants import A2A_JSON_MEDIA_TYPE
from a2a.utils.error_handlers import build_rest_error_payload
from a2a.utils.errors import A2AError, ContentTypeNotSupportedError, InvalidRequestError
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Message, Receive

from hermesops.base.foreign_json import has_more

LARGEST = 8 << 20
"""Bytes of a body: the images of a message have five megabytes at most, and are in base64."""

_MOST_VALUES = 100_000
"""Values of a body, at most: the SDK takes half a second for as many in ``parts``, and a tenth for files of 5 MB
(measured 2026-12-01), in which the process serves nobody else."""

_JSON = frozenset({"application/json", A2A_JSON_MEDIA_TYPE})


async def refused_body(request: Request) -> A2AError | None:
    """Why a body is none for the SDK, which takes bytes that are no text for a bug; ``None`` for one that it takes."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method == "POST" and kind not in {"", *_JSON}:
        return ContentTypeNotSupportedError("the content type must be application/json")
    body = await request.body()
    if not _is_utf_8(body):
        return InvalidRequestError("the body must be JSON in UTF-8")
    if has_more(body, _MOST_VALUES):
        return InvalidRequestError(f"the body has more than {_MOST_VALUES} values")
    return None


def _is_utf_8(body: bytes) -> bool:
    """Whether a body is JSON in UTF-8; one with a NUL may be in UTF-16, which the SDK would read, too."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in body


def refusal(path: str, error: A2AError) -> JSONResponse:
    """The refusal of a body. Source: A2A specification 1.0, sections 5.4, 9.5 and 11.6."""
    is_kind = isinstance(error, ContentTypeNotSupportedError)
    if path == "/":
        return JSONResponse(build_error_response(None, error if is_kind else JSONParseError(message=error.message)))
    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE if is_kind else HTTPStatus.BAD_REQUEST
    return JSONResponse(build_rest_error_payload(error), status)


def whole(body: bytes, receive: Receive) -> Receive:
    """A body that was read, once more; then what follows it: the end of the connection."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def message() -> Message:
        return messages.pop() if messages else await receive()

    return message
