"""Messages of callers as text and files, bounded; content that agents do not take is refused by name. Pure.

An address of a file is refused too: nothing is fetched from where a caller says.
"""

import json
from collections.abc import Sequence

from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageConfiguration
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError
from google.protobuf.json_format import MessageToDict

from hermesops.a2a.cards import DATA, IMAGES, TEXTS
from hermesops.model.chat.caller import CONTEXT
from hermesops.users.chat.files import SentFile, media_type_of, shown_name
from hermesops.users.chat.service import LONGEST_MESSAGE

MOST_PARTS = 50
MOST_FILES = 5
"""Files of a message: its user has room for ten that wait, and others of their own."""

_ANY = frozenset({*TEXTS, "text/*", "*/*", "text"})
_TASK = 64


def content_of(message: Message) -> tuple[str, Sequence[SentFile]]:
    """The text of a message, in which data stands as JSON, and its files.

    Raises:
        InvalidParamsError: It has no content, too much of it, or is not from a user.
        ContentTypeNotSupportedError: It has content of a kind that agents do not take, or an address of a file.
        UsageError: A file is empty, too large, or of no kind that agents take.
    """
    _refuse_other_names(message)
    if len(message.parts) > MOST_PARTS:
        raise InvalidParamsError(f"a message must have at most {MOST_PARTS} parts")
    files = [_file(part) for part in message.parts if part.WhichOneof("content") == "raw"]
    if len(files) > MOST_FILES or (files and message.task_id):
        raise InvalidParamsError(f"a message can have at most {MOST_FILES} files; an answer to a request can have none")
    text = "\n\n".join(_text(part) for part in message.parts if part.WhichOneof("content") != "raw").strip()
    if not (text or files) or "\0" in text:
        raise InvalidParamsError("the message needs a text or a file, and must not contain a NUL character")
    if len(text) > LONGEST_MESSAGE:
        raise InvalidParamsError(f"a message must have at most {LONGEST_MESSAGE} characters")
    return text, files


def refuse_other_outputs(configuration: SendMessageConfiguration) -> None:
    """Check that the caller accepts text.

    Raises:
        ContentTypeNotSupportedError: It accepts other media types only.
    """
    modes = list(configuration.accepted_output_modes)
    if modes and not _ANY & {_plain(mode) for mode in modes}:
        raise ContentTypeNotSupportedError(f"the agent answers {' and '.join(TEXTS)}")


def _refuse_other_names(message: Message) -> None:
    if message.role != Role.ROLE_USER:
        raise InvalidParamsError("the role of a message must be ROLE_USER")
    if not CONTEXT.fullmatch(message.message_id):
        raise InvalidParamsError("the message's id is too long, or has characters other than A-Z, a-z, 0-9 and ._:-")
    if message.context_id and not CONTEXT.fullmatch(message.context_id):
        raise InvalidParamsError("the context's id is too long, or has characters other than A-Z, a-z, 0-9 and ._:-")
    if len(message.task_id) > _TASK:
        raise InvalidParamsError("the task's id is too long")


def _text(part: Part) -> str:
    match part.WhichOneof("content"):
        case "text" if not part.media_type or part.media_type.startswith("text/"):
            return part.text
        case "data":
            return f"```json\n{json.dumps(MessageToDict(part.data), ensure_ascii=False)}\n```"
        case "url":
            raise ContentTypeNotSupportedError("the agent does not fetch files; send the content as raw bytes")
    raise ContentTypeNotSupportedError("the agent accepts text, data, images and text files only")


def _file(part: Part) -> SentFile:
    """A file, whose content is of the kind that its media type names."""
    named, name = _plain(part.media_type), shown_name(part.filename)
    is_text = named == DATA or named.startswith("text/")
    if named and not is_text and named not in IMAGES:
        raise ContentTypeNotSupportedError(f"the agent accepts only images ({', '.join(IMAGES)}) and text files")
    kind = media_type_of(name, part.raw)
    if named and kind != ("text/plain" if is_text else named):
        raise ContentTypeNotSupportedError(f"{name}: the content is not {named}")
    return SentFile(name, kind, part.raw)


def _plain(media_type: str) -> str:
    """A media type without its parameters, in lower case."""
    return media_type.partition(";")[0].strip().lower()
