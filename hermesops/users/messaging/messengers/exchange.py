"""Calls a method of a messenger once, and reads or sends a file of one, bounded in time and size."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import httpx

from hermesops.base.network.http import client
from hermesops.errors import RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.model.messaging.files import AgentFile
from hermesops.vendor.justavps.answer_body import AnswerBody, Deadline, UnreadableAnswerError
from hermesops.wire import strict_json

_CONNECT_S = 5.0
_ANSWER_S = 20.0
_LARGEST_ANSWER = 1 << 20
_FILE_S = 25.0
"""Seconds for a file: a gateway of hermes-agent waits for 30."""

_LONGEST_LENGTH = 12
_LIMIT_HEADERS = "x-ratelimit-"


class TooLargeError(RefusedError):
    """A file is larger than may be passed on, or more are kept than may be."""


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


@dataclass(frozen=True)
class Form:
    """A form, with a file or without one.

    Attributes:
        fields: By name.
        field: Name of the file's field; empty for a file that is the whole body.
    """

    fields: Mapping[str, str]
    file: AgentFile | None = None
    field: str = "file"

    @property
    def content(self) -> dict[str, Any]:
        """As httpx takes it."""
        if self.file is None:
            return {"data": dict(self.fields)}
        if not self.field:
            return {"content": self.file.content}
        return {
            "data": dict(self.fields),
            "files": {self.field: (self.file.name, self.file.content, self.file.media_type)},
        }


async def call(
    vendor: str,
    url: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "",
    form: "Form | None" = None,
) -> Answer:
    """Send a value of JSON or a form, or ask without one. The errors name neither the address nor the headers.

    These may hold a token.

    Args:
        vendor: Its name, for errors.
        method: Empty for ``POST`` with a body and ``GET`` without.
        form: In the place of a body.

    Raises:
        UnavailableError: The messenger was not reached.
        UnknownOutcomeError: No answer came.
    """
    content: dict[str, Any] = {} if body is None else {"json": dict(body) if isinstance(body, Mapping) else body}
    content |= form.content if form else {}
    total_s = _FILE_S if form and form.file else _ANSWER_S
    timeout = httpx.Timeout(total_s, connect=_CONNECT_S)
    try:
        deadline = Deadline(total_s)
        async with (
            client(timeout=timeout) as http,
            http.stream(
                method or ("POST" if content else "GET"), url, **content, headers=dict(headers or {})
            ) as response,
        ):
            answer = await AnswerBody(response, deadline=deadline, largest=_LARGEST_ANSWER).whole()
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise UnavailableError(f"{vendor} was not reached: {type(error).__name__}") from None
    except (httpx.HTTPError, UnreadableAnswerError, OSError) as error:
        raise UnknownOutcomeError(f"no answer of {vendor}: {type(error).__name__}") from None
    limits = {name: value[:32] for name, value in response.headers.items() if name.startswith(_LIMIT_HEADERS)}
    return Answer(response.status_code, answer, response.headers.get("retry-after", "")[:32], limits)


async def fetch(
    vendor: str, url: str, headers: Mapping[str, str] | None = None, *, hosts: Sequence[str], largest: int
) -> bytes:
    """Read a file of a messenger. Redirections are not followed, and errors name neither the address nor the headers.

    Args:
        hosts: Where it may be: an address that the messenger gave, of another host, is not asked.
        largest: Bytes.

    Raises:
        RefusedError: The messenger does not give it, or it is elsewhere.
        TooLargeError: See there.
        UnavailableError: The messenger was not reached, or gave no whole file.
    """
    parts = urlsplit(url)
    if parts.netloc not in hosts or parts.username is not None:
        raise RefusedError(f"{vendor}: a file is elsewhere")
    try:
        deadline = Deadline(_FILE_S)
        timeout = httpx.Timeout(_FILE_S, connect=_CONNECT_S)
        named = {**(headers or {}), "accept-encoding": "identity"}  # what is packed is not unpacked here
        async with client(timeout=timeout) as http, http.stream("GET", url, headers=named) as response:
            if response.status_code != HTTPStatus.OK:
                is_away = response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
                raise (UnavailableError if is_away else RefusedError)(
                    f"{vendor}: HTTP {response.status_code} for a file"
                )
            content = await _whole(response, deadline, largest)
    except (httpx.HTTPError, UnreadableAnswerError, OSError) as error:
        raise UnavailableError(f"no file of {vendor}: {type(error).__name__}") from None
    return content


async def _whole(response: httpx.Response, deadline: Deadline, largest: int) -> bytes:
    length, content = response.headers.get("content-length", ""), bytearray()
    if length.isascii() and length.isdigit() and (len(length) > _LONGEST_LENGTH or int(length) > largest):
        raise TooLargeError(f"a file of more than {largest} bytes")
    async for piece in AnswerBody(response, deadline=deadline, largest=2 * largest).pieces():
        content += piece
        if len(content) > largest:
            raise TooLargeError(f"a file of more than {largest} bytes")
    return bytes(content)
