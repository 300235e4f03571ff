"""One question to the platform's monitoring, over HTTP: each answer is bounded in time, size and shape.

Monitoring stores what machines send, so no text of an answer is repeated as if it were ours.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from hermesops.base.network.http import client, own_client
from hermesops.errors import HermesError, Hint, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.vendor.justavps.answer_body import AnswerBody, Deadline, UnreadableAnswerError
from hermesops.wire import strict_json
from hermesops.wire.foreign_text import quoted

WITHIN_S = 10.0
"""Seconds for one answer, where a question does not say otherwise."""

LARGEST = 16 << 20
"""Bytes of an answer, where a question does not say otherwise."""

_CONNECT_S = 5.0
_AT_ONCE = 1 << 18
"""Bytes of an answer that are read without a thread."""

_SENTENCE = 1 << 16
"""Bytes of a refusal that are read."""

_SHOWN = 200
"""Characters of a refusal that are shown."""

_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}
_NEVER_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)
_HINT = Hint(("settings", "show"), "names monitoring.url")

OpenTls = Callable[[], ssl.SSLContext]
"""The TLS context with hermesops' own certificate; asked for before each question, as a certificate runs out."""


class WrongQuestionError(RefusedError):
    """The question itself is wrong, as an expression that cannot be read; asked again it would be wrong again."""


@dataclass(frozen=True)
class Question:
    """One request.

    Attributes:
        path: Begins with the service, as ``/alertmanager/api/v2/alerts``.
        params: What follows the path; in a form each name once.
        form: Whether ``params`` are sent as a form instead: an address holds some thousands of characters.
        body: Sent as JSON.
        content: Sent as it is, in the place of ``body``.
        changes: Whether it may change something, so that a lost answer is an unknown outcome.
    """

    path: str
    params: tuple[tuple[str, str], ...] = ()
    method: str = "GET"
    form: bool = False
    body: object = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    within_s: float = WITHIN_S
    largest: int = LARGEST
    changes: bool = False


class MonitoringClient:
    """The monitoring of one platform; connections are opened for a question and closed after it.

    Args:
        base_url: What paths of questions follow.
        tls: With a certificate of our own; ``None`` where it asks for none.
        is_ours: Whether it is the platform's own, which no proxy may stand before.
        keeps: Whether connections stay open for the next question, until ``aclose``: for who asks all the time.
    """

    def __init__(self, base_url: str, tls: OpenTls | None = None, *, keeps: bool = False, is_ours: bool = True) -> None:
        self.base_url = base_url.rstrip("/")
        self._tls = tls
        self._keeps = keeps
        self._is_ours = is_ours
        self._kept: tuple[ssl.SSLContext | None, httpx.AsyncClient] | None = None

    async def aclose(self) -> None:
        """Close the connections that were kept."""
        if self._kept:
            await self._kept[1].aclose()
            self._kept = None

    async def ask(self, question: Question) -> Any:  # noqa: ANN401 - JSON has no narrower type
        """The JSON of an answer; ``None`` for an empty one.

        Raises:
            WrongQuestionError: It says that the question is wrong.
            RefusedError: It does not answer us.
            UnavailableError: It does not answer, or with what cannot be read.
            UnknownOutcomeError: It may have changed what it was asked to change.
        """
        try:
            async with self._opened() as opened:
                return await self._answer(opened, question)
        except (*_NEVER_SENT, httpx.InvalidURL, ssl.SSLError, OSError) as error:
            raise self._unavailable(str(error) or type(error).__name__) from error
        except (httpx.HTTPError, UnreadableAnswerError, strict_json.MalformedJSONError) as error:
            raise self._lost(question, str(error) or type(error).__name__) from error

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[httpx.AsyncClient]:
        context = self._tls() if self._tls else None
        if not self._keeps:
            async with self._client(context) as opened:
                yield opened
            return
        if self._kept is None or self._kept[0] is not context:
            await self.aclose()
            # The same address with another certificate must not go through a connection of the old one.
            self._kept = (context, self._client(context))
        yield self._kept[1]

    def _client(self, context: ssl.SSLContext | None) -> httpx.AsyncClient:
        return own_client(verify=context, headers=_HEADERS) if self._is_ours else client(headers=_HEADERS)

    async def _answer(self, opened: httpx.AsyncClient, question: Question) -> Any:  # noqa: ANN401 - as ``ask``
        deadline = Deadline(question.within_s)
        request = opened.build_request(
            question.method,
            f"{self.base_url}{question.path}",
            params=None if question.form else question.params,
            data=dict(question.params) if question.form else None,
            json=question.body,
            content=question.content,
            headers=dict(question.headers),
            timeout=httpx.Timeout(question.within_s, connect=min(_CONNECT_S, question.within_s)),
        )
        response = await deadline.bound(opened.send(request, stream=True))
        try:
            if response.is_success:
                text = await AnswerBody(response, deadline=deadline, largest=question.largest).whole()
                if len(text) > _AT_ONCE:  # takes a second, in which others have to go on
                    return await asyncio.to_thread(strict_json.parse, text, largest=question.largest)
                return strict_json.parse(text, largest=question.largest) if text.strip() else None
            body = await AnswerBody(response, deadline=deadline, largest=_SENTENCE).whole()
            raise self._refusal(question, response.status_code, body)
        finally:
            await response.aclose()

    def _refusal(self, question: Question, status: int, body: bytes) -> HermesError:
        words = f"{self._service(question)} answers with status {status}: {_sentence(body)}"
        if status in {httpx.codes.BAD_REQUEST, httpx.codes.UNPROCESSABLE_ENTITY}:
            return WrongQuestionError(words)
        if status in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
            return RefusedError(words, hint="it takes certificates of this environment's authority alone")
        if status >= httpx.codes.INTERNAL_SERVER_ERROR and question.changes:
            return UnknownOutcomeError(words, hint="check the current state before you repeat it")
        return UnavailableError(words, hint=_HINT)

    def _lost(self, question: Question, why: str) -> HermesError:
        if not question.changes:
            return self._unavailable(why)
        words = f"{self._service(question)} may have done it: no whole answer ({quoted(why, longest=_SHOWN)})"
        return UnknownOutcomeError(words, hint="check the current state before you repeat it")

    def _unavailable(self, why: str) -> UnavailableError:
        words = f"monitoring at {self.base_url} gives no answer: {quoted(why, longest=_SHOWN)}"
        return UnavailableError(words, hint=_HINT)

    def _service(self, question: Question) -> str:
        return f"{question.path.split('/')[1]} at {self.base_url}"


def _sentence(body: bytes) -> str:
    """The words of a refusal, which some services put into JSON."""
    try:
        answer = strict_json.parse(body, largest=_SENTENCE)
    except strict_json.MalformedJSONError:
        answer = None
    if isinstance(answer, dict):
        answer = answer.get("error") or answer.get("message")
    words = answer if isinstance(answer, str) else body.decode(errors="replace")
    return quoted(words, longest=_SHOWN)
