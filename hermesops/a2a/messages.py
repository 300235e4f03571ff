"""Messages of callers as text, bounded; kinds of content that agents do not take are refused by name. Pure."""

import json

from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageConfiguration
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError
from google.protobuf.json_format import MessageToDict

from hermesops.a2a.cards import TEXTS
from hermesops.model.chat.caller import CONTEXT
from hermesops.users.chat.service import LONGEST_MESSAGE

MOST_PARTS = 50
_ANY = frozenset({*TEXTS, "text/*", "*/*", "text"})
_TASK = 64


def text_of(message: Message) -> str:
    """The text of a message; data stands in it as JSON.

    Raises:
        InvalidParamsError: It has no text, too much of it, or is not from a user.
        ContentTypeNotSupportedError: It has a file.
    """
    if message.role != Role.ROLE_USER:
        raise InvalidParamsError("the role of a message is ROLE_USER")
    if len(message.parts) > MOST_PARTS:
        raise InvalidParamsError(f"a message has at most {MOST_PARTS} parts")
    if not CONTEXT.fullmatch(message.message_id):
        raise InvalidParamsError("the message's id has other characters than A-Z, a-z, 0-9 and ._:-, or too many")
    if message.context_id and not CONTEXT.fullmatch(message.context_id):
        raise InvalidParamsError("the context's id has other characters than A-Z, a-z, 0-9 and ._:-, or too many")
    if len(message.task_id) > _TASK:
        raise InvalidParamsError("the task's id is too long")
    text = "\n\n".join(_text(part) for part in message.parts).strip()
    if not text or "\0" in text:
        raise InvalidParamsError("the message has no text, or a NUL character")
    if len(text) > LONGEST_MESSAGE:
        raise InvalidParamsError(f"a message has at most {LONGEST_MESSAGE} characters")
    return text


def refuse_other_outputs(configuration: SendMessageConfiguration) -> None:
    """Check that the caller accepts text.

    Raises:
        ContentTypeNotSupportedError: It accepts other media types only.
    """
    modes = list(configuration.accepted_output_modes)
    if modes and not _ANY & {mode.partition(";")[0].strip().lower() for mode in modes}:
        raise ContentTypeNotSupportedError(f"the agent answers {' and '.join(TEXTS)}")


def _text(part: Part) -> str:
    match part.WhichOneof("content"):
        case "text" if not part.media_type or part.media_type.startswith("text/"):
            return part.text
        case "data":
            return f"```json\n{json.dumps(MessageToDict(part.data), ensure_ascii=False)}\n```"
    raise ContentTypeNotSupportedError("the agent takes text and data, and no files")
