"""Calls a method of a messenger once, bounded in time and size."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from hermesops.base.network.http import client
from hermesops.errors import UnavailableError, UnknownOutcomeError
from hermesops.vendor.justavps.answer_body import AnswerBody, Deadline, UnreadableAnswerError
from hermesops.wire import strict_json

_CONNECT_S = 5.0
_ANSWER_S = 20.0
_LARGEST_ANSWER = 1 << 20
_LIMIT_HEADERS = "x-ratelimit-"


@dataclass(frozen=True)
class Answer:
    """What a messenger answered.

    Attributes:
        retry_after: The header ``Retry-After``; empty for none.
        headers: Those that tell of limits, in lower case.
    """

    status: int
    body: bytes = field(repr=False)
    retry_after: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> Mapping[str, Any]:
        """The body's object of JSON; empty for any other body."""
        try:
            return strict_json.parse_object(self.body, largest=_LARGEST_ANSWER)
        except strict_json.MalformedJSONError:
            return {}

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The objects of the body's list; none for any other body."""
        try:
            values = strict_json.parse(self.body, largest=_LARGEST_ANSWER)
        except strict_json.MalformedJSONError:
            return ()
        return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else ()


async def call(
    vendor: str,
    url: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "",
) -> Answer:
    """Send a value of JSON, or ask without one. The errors name neither the address nor the headers.

    These may hold a token.

    Args:
        vendor: Its name, for errors.
        method: Empty for ``POST`` with a body and ``GET`` without.

    Raises:
        UnavailableError: The messenger was not reached.
        UnknownOutcomeError: No answer came.
    """
    content: dict[str, Any] = {} if body is None else {"json": dict(body) if isinstance(body, Mapping) else body}
    timeout = httpx.Timeout(_ANSWER_S, connect=_CONNECT_S)
    try:
        deadline = Deadline(_ANSWER_S)
        async with (
            client(timeout=timeout) as http,
            http.stream(
                method or ("GET" if body is None else "POST"), url, **content, headers=dict(headers or {})
            ) as response,
        ):
            answer = await AnswerBody(response, deadline=deadline, largest=_LARGEST_ANSWER).whole()
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise UnavailableError(f"{vendor} was not reached: {type(error).__name__}") from None
    except (httpx.HTTPError, UnreadableAnswerError, OSError) as error:
        raise UnknownOutcomeError(f"no answer of {vendor}: {type(error).__name__}") from None
    limits = {name: value[:32] for name, value in response.headers.items() if name.startswith(_LIMIT_HEADERS)}
    return Answer(response.status_code, answer, response.headers.get("retry-after", "")[:32], limits)
