"""Files that users send along: which kinds there are, by their content, and how each reaches the agent. Pure.

hermes-agent 0.19.0 takes images in a message and no other files ("uploaded files and document inputs are not supported
on this endpoint"; ``gateway/platforms/api_server.py``, ``_normalize_multimodal_content``). So texts become part of the
message, and everything else is refused by name.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hermesops.errors import RefusedError, UsageError
from hermesops.store.user_rows.files import ChatFile
from hermesops.wire.foreign_text import one_line

LARGEST = 10_000_000
"""Bytes of a file."""

LARGEST_IMAGE = 5_000_000
"""Bytes of an image, and of all images of a message: in base64 they have to fit, with the conversation, into the ten
megabytes that an agent takes."""

LARGEST_TEXT = 64_000
MOST, MOST_BYTES = 10, 30_000_000
"""Number and bytes of the files of a user that wait for their message."""

_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_NAME = 120


class TooManyFilesError(RefusedError):
    """The user has uploaded more than may wait for a message."""


class UnknownKindError(UsageError):
    """A file is no image that models look at, and no text."""


@dataclass(frozen=True)
class SentFile:
    """A file that came with its message.

    Attributes:
        name: As ``shown_name`` gives it.
        media_type: As ``media_type_of`` gives it.
    """

    name: str = field(repr=False)
    media_type: str
    content: bytes = field(repr=False)


def shown_name(name: str) -> str:
    """The name of a file as it is shown: its last part, in one line."""
    return one_line(name.replace("\\", "/").rpartition("/")[2], longest=_NAME) or "file"


def media_type_of(name: str, content: bytes) -> str:
    """The kind of a file, by its content: an image, or ``text/plain``.

    Args:
        name: As ``shown_name`` gives it.

    Raises:
        UnknownKindError: It is neither; the message names it.
        UsageError: It is empty or too large.
    """
    if not content:
        raise UsageError(f"{name}: the file is empty", field="file")
    if image := _image(content):
        if len(content) > LARGEST_IMAGE:
            raise UsageError(f"{name}: an image has at most {LARGEST_IMAGE // 1_000_000} MB", field="file")
        return image
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UnknownKindError(
            f"{name}: only images (PNG, JPEG, GIF, WebP) and texts in UTF-8 can be sent", field="file"
        )
    if len(text) > LARGEST_TEXT:
        raise UsageError(f"{name}: a text has at most {LARGEST_TEXT} characters", field="file")
    return "text/plain"


def with_texts(message: str, files: Sequence[ChatFile]) -> str:
    """A message with its text files behind it, each between fences that it does not contain."""
    return "\n\n".join([message, *(_fenced(file) for file in files if not file.is_image)])


def refuse_too_many(files: Sequence[ChatFile]) -> None:
    """Check that an agent takes the images of one message.

    Raises:
        UsageError: They are too large together.
    """
    if sum(len(file.content) for file in files if file.is_image) > LARGEST_IMAGE:
        raise UsageError(
            f"the images of a message have at most {LARGEST_IMAGE // 1_000_000} MB together", field="files"
        )


def _image(content: bytes) -> str:
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _IMAGES if content.startswith(magic)), "")


def _fenced(file: ChatFile) -> str:
    text = file.content.decode("utf-8-sig").strip("\r\n")
    fence = "```"
    while fence in text:
        fence += "`"
    return f"File {file.name}:\n{fence}\n{text}\n{fence}"
