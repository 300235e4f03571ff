"""One HTTP exchange with JustAVPS: timeouts, request id, retries of reads, and every failure as a type.

It must not know machines or images. Bodies are never logged, and neither are queries: both may hold secrets.
"""

import json
import time
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import uuid4

import httpx
import structlog
from pydantic import BaseModel, ValidationError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from hermesops.base.network.http import ProxyFailedError
from hermesops.base.waiting import pause
from hermesops.errors import Hint
from hermesops.vendor.justavps.answer_body import LARGEST, AnswerBody, Deadline, UnreadableAnswerError
from hermesops.vendor.justavps.connections import CONNECT_S, Closing, http_client
from hermesops.vendor.justavps.errors import (
    HINTS,
    NOT_ALLOWED,
    AnswerError,
    ChangeNotJsonError,
    ChangeServerError,
    CommandTimedOutError,
    JustAvpsError,
    LostChangeError,
    LostReadError,
    NotAllowedError,
    NotFoundError,
    NotJsonError,
    PaymentRequiredError,
    RateLimitedError,
    ReadNotJsonError,
    ReadServerError,
    UnreachableError,
    scrubbed,
)
from hermesops.wire import strict_json

ModelT = TypeVar("ModelT", bound=BaseModel)

_READ_S = 30.0
_TRIES = 3
_BACK_OFF = wait_random_exponential(multiplier=0.2, max=2)
_LONGEST_RETRY_AFTER_S = 30.0
_SUCCESS = range(200, 300)
_SENTENCE = 1 << 20
"""Bytes of a refusal."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Call:
    """One HTTP request, and its limits.

    Attributes:
        query: Parameters of the URL; never logged.
        body: Body to send as JSON; ``content`` is sent unchanged.
        read_timeout_s: Seconds without a byte of the answer until it counts as lost.
        total_s: Seconds until a call counts as lost although bytes still arrive; by default as many.
        changes: True if the request may change something, so that a lost answer is an unknown outcome.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    content: bytes | AsyncIterable[bytes] | None = field(default=None, repr=False)
    read_timeout_s: float = _READ_S
    total_s: float | None = None
    largest: int = LARGEST
    changes: bool = True

    @property
    def deadline_s(self) -> float:
        """Time limit of the whole exchange in seconds."""
        return self.read_timeout_s if self.total_s is None else self.total_s

    @property
    def shown(self) -> str:
        """Method and path for messages, without the query."""
        return f"{self.method} {self.path}"


class Transport(Closing):
    """The connections to one API with one key. Use as an async context manager.

    Args:
        base_url: With ``/api/v1``.
        api_key: Sent as bearer; kept out of every text.
        transport: Replaces the network in tests.
    """

    def __init__(self, base_url: str, api_key: str, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.base_url = base_url.rstrip("/")
        headers = {"Authorization": f"Bearer {api_key}", "Accept": "application/json"}
        self._http = http_client(httpx.URL(self.base_url), headers=headers, transport=transport)

    async def aclose(self) -> None:
        """Close all connections to the API."""
        await self._http.aclose()

    async def ask(self, call: Call) -> bytes:
        """Send one request and return the body of a success; a read is tried up to three times.

        Raises:
            JustAvpsError: The exchange failed; the subclass is the kind of failure.
        """
        if call.changes:
            return await self._once(call)
        again = AsyncRetrying(
            retry=retry_if_exception_type((UnreachableError, LostReadError, ReadServerError, RateLimitedError)),
            stop=stop_after_attempt(_TRIES),
            wait=_retry_wait_s,
            sleep=pause,
            reraise=True,
        )
        return await again(self._once, call)

    async def ask_for(self, call: Call, model: type[ModelT]) -> ModelT:
        """Make one call and parse its answer."""
        return parsed(call, await self.ask(call), model)

    async def ask_for_list(self, call: Call, key: str, model: type[ModelT]) -> list[ModelT]:
        """Make one call and parse the list under ``key`` of its answer; ``null`` is an empty one.

        Raises:
            NotJsonError: There is no list; taken as empty, it would make callers order everything again.
        """
        answer = loaded(call, await self.ask(call))
        items = answer.get(key, "") if isinstance(answer, dict) else answer
        if items is not None and not isinstance(items, list):
            raise _not_json(call)(call.shown, f"no list of {key}", status=200)
        return [validated(call, item, model) for item in items or ()]

    async def ask_gone(self, call: Call) -> None:
        """Make one call that removes something; that it is gone already is success."""
        try:
            await self.ask(call)
        except NotFoundError:
            _log.debug("justavps_gone_already", path=call.path)

    async def _once(self, call: Call) -> bytes:
        async with self.opened(call) as answer:
            return await answer.whole()

    @asynccontextmanager
    async def opened(self, call: Call) -> AsyncIterator[AnswerBody]:
        """Make one call, without retry, and leave the body of a success to be read while the context is open.

        Failures while the body is read become types as well, and so does the end of the call's time.
        """
        request_id = uuid4().hex
        request = self._http.build_request(
            call.method,
            f"{self.base_url}{call.path}",
            params=dict(call.query) or None,
            content=_content(call),
            headers=_headers(call, request_id),
            timeout=httpx.Timeout(_READ_S, connect=CONNECT_S, read=call.read_timeout_s, pool=None),
        )
        started = time.monotonic()
        outcome: object = "interrupted"
        try:
            deadline = Deadline(call.deadline_s)
            response = await deadline.bound(self._http.send(request, stream=True))
            outcome = response.status_code
            try:
                if response.status_code not in _SUCCESS:
                    sentence = await AnswerBody(response, deadline=deadline, largest=_SENTENCE).whole()
                    raise refusal(call, response, sentence, request_id)
                yield AnswerBody(response, deadline=deadline, largest=call.largest)
            finally:
                await response.aclose()
        except NOT_ANSWERED as cause:
            outcome = type(cause).__name__
            raise lost(call, cause, request_id) from cause
        finally:
            _log.debug(
                "justavps_called",
                method=call.method,
                path=call.path,
                outcome=outcome,
                seconds=round(time.monotonic() - started, 3),
                request_id=request_id,
            )


def _content(call: Call) -> bytes | AsyncIterable[bytes] | None:
    return call.content if call.body is None else json.dumps(call.body).encode()


def _headers(call: Call, request_id: str) -> dict[str, str]:
    headers = {"X-Request-Id": request_id}
    if call.body is not None:
        headers["Content-Type"] = "application/json"
    elif call.content is not None:
        headers["Content-Type"] = "application/octet-stream"
    return headers


NOT_ANSWERED = (httpx.HTTPError, UnreadableAnswerError)
"""Errors of an exchange without an answer, or with one that was not read to its end."""


def lost(call: Call, cause: Exception, request_id: str) -> JustAvpsError:
    """Return the error for a failed exchange: not sent, or sent and not answered."""
    why = scrubbed(str(cause)) or type(cause).__name__
    if isinstance(cause, ProxyFailedError):
        return UnreachableError(call.shown, f"not sent: {why}", request_id=request_id, hint=cause.hint)
    # Raised before the first byte of the request leaves this computer.
    if isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout | httpx.UnsupportedProtocol):
        return UnreachableError(
            call.shown, f"not reachable ({why})", request_id=request_id, hint=Hint("check it with:", ("doctor",))
        )
    kind = LostChangeError if call.changes else LostReadError
    return kind(call.shown, f"no answer ({why})", request_id=request_id)


def refusal(call: Call, response: httpx.Response, body: bytes, request_id: str) -> AnswerError:
    """Return the error for a status and body."""
    problem, code, checkout = _sentence(body)
    status = response.status_code
    kind: type[AnswerError]
    if status >= httpx.codes.INTERNAL_SERVER_ERROR:
        kind = ChangeServerError if call.changes else ReadServerError
    elif status == httpx.codes.REQUEST_TIMEOUT:
        kind = CommandTimedOutError
    elif status == httpx.codes.TOO_MANY_REQUESTS:
        kind = RateLimitedError
    elif status < httpx.codes.BAD_REQUEST:
        kind = _not_json(call)
    else:
        kind = NOT_ALLOWED.get(status, NotAllowedError)
    # A code is the machine's daemon's, which speaks of files and commands, not of machines.
    hint = "" if code else HINTS.get(kind, "")
    error = kind(call.shown, problem, status=status, code=code, request_id=request_id, hint=hint)
    if isinstance(error, RateLimitedError):
        error.retry_after_s = _seconds(response.headers.get("retry-after", ""))
    if isinstance(error, PaymentRequiredError):
        error.checkout_url = checkout
        error.hint = Hint(f"add a payment method at {checkout}" if checkout else "")
    return error


def _seconds(retry_after: str) -> float:
    """Parse ``Retry-After`` in seconds. RFC 9110 allows a date too; anything but a number counts as none."""
    return float(retry_after) if retry_after.isdecimal() else 0.0


def _retry_wait_s(state: RetryCallState) -> float:
    """Return the seconds until the next attempt: a backoff, or the vendor's ``Retry-After`` up to a limit."""
    failure = state.outcome.exception() if state.outcome else None
    requested_s = failure.retry_after_s if isinstance(failure, RateLimitedError) else 0.0
    return max(_BACK_OFF(state), min(requested_s, _LONGEST_RETRY_AFTER_S))


def _sentence(body: bytes) -> tuple[str, str, str]:
    """Return the vendor's sentence, code and checkout address; never anything of a body that is not JSON."""
    try:
        answer = strict_json.parse(body)
    except strict_json.MalformedJSONError:
        return ("an answer that is not JSON" if body else ""), "", ""
    if not isinstance(answer, dict):
        return "", "", ""
    # The API says {error: true, message}, the machine's daemon {error: text, code}.
    message = answer.get("message") or answer.get("error")
    code, checkout = answer.get("code"), answer.get("checkout_url")
    return (
        scrubbed(message) if isinstance(message, str) else "",
        scrubbed(code) if isinstance(code, str) else "",
        checkout if isinstance(checkout, str) and checkout.startswith(("https://", "http://")) else "",
    )


def loaded(call: Call, body: bytes) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Parse the body of an answer as JSON.

    Raises:
        NotJsonError: The body is no JSON. It is neither repeated nor kept in the error's context.
    """
    try:
        return strict_json.parse(body, largest=call.largest)
    except strict_json.MalformedJSONError as wrong:
        problem = f"an answer that is not JSON ({wrong})"
    raise _not_json(call)(call.shown, problem, status=200)


def parsed(call: Call, body: bytes, model: type[ModelT]) -> ModelT:
    """Parse the body of an answer to a wire type."""
    return validated(call, loaded(call, body), model)


def validated(call: Call, answer: object, model: type[ModelT]) -> ModelT:
    """Convert parsed JSON to a wire type.

    Raises:
        NotJsonError: A required field is missing or of another type.
    """
    try:
        return model.model_validate(answer)
    except ValidationError as wrong:
        where = ", ".join(
            sorted({".".join(str(part) for part in error["loc"]) for error in wrong.errors(include_input=False)})
        )
    # Outside the handler: a ValidationError keeps its input, which may hold a key, and would stay as context.
    problem = f"a {model.__name__} of an unknown form (at {where or 'its top'})"
    raise _not_json(call)(call.shown, problem, status=200)


def _not_json(call: Call) -> type[NotJsonError]:
    return ChangeNotJsonError if call.changes else ReadNotJsonError
