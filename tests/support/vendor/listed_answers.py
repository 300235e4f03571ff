"""A transport that answers requests from a list and remembers them."""

from collections.abc import Callable

import httpx

Answer = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


class Answers(httpx.AsyncBaseTransport):
    """Answers in order; the last answer is repeated.

    Attributes:
        requests: What was asked, bodies read.
    """

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, httpx.Response):
            # Answers may be given twice, and a response is used up by being read.
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)
        return answer(request)

    @property
    def asked(self) -> list[str]:
        """Method and path of each request."""
        return [f"{request.method} {request.url.path}" for request in self.requests]


def json(status: int, body: object) -> httpx.Response:
    """An answer in JSON."""
    return httpx.Response(status, json=body)
