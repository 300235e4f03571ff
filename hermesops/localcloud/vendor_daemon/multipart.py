"""The first file of a multipart body, in pieces: what browsers and some clients send instead of the bare bytes."""

from collections.abc import Iterator

from .http import HttpError

_HEAD_LIMIT = 16 * 1024


def boundary_of(content_type: str) -> bytes:
    """The line that parts the body; empty when the body is no multipart."""
    kind, _, rest = content_type.partition(";")
    if kind.strip().lower() != "multipart/form-data":
        return b""
    for parameter in rest.split(";"):
        name, _, value = parameter.strip().partition("=")
        if name.lower() == "boundary" and value:
            return b"--" + value.strip('"').encode("latin-1")
    raise HttpError(400, "bad_request", "multipart without a boundary")


def first_part(pieces: Iterator[bytes], boundary: bytes) -> Iterator[bytes]:
    """What the first part holds; the rest is read and dropped.

    Raises:
        HttpError: 400, the body ends before the part does.
    """
    held = b""
    for piece in pieces:
        held += piece
        if b"\r\n\r\n" in held or len(held) > _HEAD_LIMIT:
            break
    head, _, held = held.partition(b"\r\n\r\n")
    if not head.startswith(boundary):
        raise HttpError(400, "bad_request", "the body does not begin with its boundary")
    end = b"\r\n" + boundary
    while end not in held:
        # The boundary may lie across two pieces: as much as could be its beginning is held back.
        sure, held = held[: -len(end)], held[-len(end) :]
        if sure:
            yield sure
        piece = next(pieces, b"")
        if not piece:
            raise HttpError(400, "bad_request", "the body ends within a part")
        held += piece
    yield held.partition(end)[0]
    for _ in pieces:
        pass
