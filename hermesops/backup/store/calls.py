"""Calls of the object store's API, bounded in time and size."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from hermesops import blocking

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest

T = TypeVar("T")

CALL_S = 60.0
"""Seconds for a call of a few requests."""

_LARGEST = 16 << 20
"""Bytes of an answer: a page of a thousand keys, the largest that S3 gives, has less than one megabyte."""

_STORE = "the object store"


async def call(work: Callable[..., T], *args: Any, within_s: float = CALL_S, **named: Any) -> T:  # noqa: ANN401 - handed on
    """Ask a store in a thread of its own, through clients that ``bound_answers`` was told of.

    Args:
        work: Asks it.
        *args: Of ``work``.
        within_s: Seconds until it is abandoned.
        **named: Of ``work``.

    Raises:
        UnavailableError: It was abandoned, or too many others wait for an answer.
    """
    return await blocking.call(partial(work, *args, **named), whom=_STORE, within_s=within_s)


def bound_answers(client: Any) -> None:  # noqa: ANN401 - the stubs of boto3's clients lack what is used here
    """Make a client of boto3's keep to the deadline of a ``call`` and to a largest answer.

    Its requests go out as before, except those of a call that was abandoned.
    """
    session: Any = client._endpoint.http_session  # noqa: SLF001 - the client's own, with its proxies and certificates

    def send(request: "AWSPreparedRequest", **_: object) -> Any:  # noqa: ANN401 - as above
        from botocore.exceptions import ResponseStreamingError  # noqa: PLC0415 - loads for half a second
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - as above

        blocking.refuse_late(_STORE)
        request.stream_output = True  # the answer is read here, not by the session
        answer = session.send(request)
        try:
            # What an answer holds is asked of it once; whoever asks afterwards finds it there (botocore.awsrequest).
            answer._content = blocking.read(answer.raw, whom=_STORE, largest=_LARGEST)  # noqa: SLF001
        except HTTPError as error:
            raise ResponseStreamingError(error=error) from error
        return answer

    client.meta.events.register("before-send", send)
