"""Pages of a list of tasks: their size, and the token that leads to the next. Pure."""

from dataclasses import dataclass

from a2a.types.a2a_pb2 import ListTasksRequest
from a2a.utils.errors import InvalidParamsError

DEFAULT, LARGEST = 50, 100
"""Tasks on a page. Source: A2A specification 1.0, section 3.1.4."""

_LAST = 100_000


@dataclass(frozen=True)
class Page:
    """A page of a list."""

    offset: int
    size: int

    def token_of_next(self, count: int) -> str:
        """The token of the page behind this one; empty where it is the last."""
        following = self.offset + self.size
        return str(following) if following < count else ""


def page_of(params: ListTasksRequest) -> Page:
    """The page that a request means.

    Raises:
        InvalidParamsError: Its size or its token is none.
    """
    size = params.page_size if params.HasField("page_size") else DEFAULT
    if not 1 <= size <= LARGEST:
        raise InvalidParamsError(f"page_size must be 1 to {LARGEST}")
    token = params.page_token or "0"
    if not (token.isascii() and token.isdigit() and len(token) < len(str(_LAST))):
        raise InvalidParamsError("page_token was not issued by this server")
    if params.HasField("history_length") and params.history_length < 0:
        raise InvalidParamsError("history_length must not be negative")
    return Page(int(token), size)
