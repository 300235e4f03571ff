"""Bodies of requests that several applications read, one behind the other."""

from starlette.types import Message, Receive


def replayed(body: bytes, receive: Receive) -> Receive:
    """A body that was read once more, then what follows it: the end of the connection. Nothing is read until then."""
    is_replayed = False

    async def message() -> Message:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return message
