"""What the relay itself answers instead of an agent. Pure."""

import json
from http import HTTPStatus


class NotRelayedError(Exception):
    """A request that is not carried to an agent, or whose answer is not carried back.

    Args:
        status: Of HTTP.
        code: A word for programs.
        words: What went wrong, for people; nothing that an agent said.
        retry_after_s: Seconds after which the same request may succeed; 0 says nothing of it.
    """

    def __init__(self, status: HTTPStatus, code: str, words: str, *, retry_after_s: int = 0) -> None:
        super().__init__(words)
        self.status = status
        self.code = code
        self.words = words
        self.retry_after_s = retry_after_s

    @property
    def body(self) -> bytes:
        """JSON that no agent's answer is mistaken for, as its header says whose it is."""
        return json.dumps({"relay": {"code": self.code, "message": self.words}}).encode()


def unavailable(code: str, words: str, *, retry_after_s: int = 5) -> NotRelayedError:
    """A refusal that passes by itself."""
    return NotRelayedError(HTTPStatus.SERVICE_UNAVAILABLE, code, words, retry_after_s=retry_after_s)
