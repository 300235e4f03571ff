"""Types of fields that several routes take or answer."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
"""Names of conversations and clients' keys, as ``model.chat.turn.CONVERSATION`` has them."""


def _sendable(text: str) -> str:
    """Refuse text that has no bytes, or ends early for programs in C."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half of a character") from None
    if "\0" in text:
        raise ValueError("a NUL character")
    return text


Text = Annotated[str, AfterValidator(_sendable)]
Name = Annotated[str, Field(pattern=NAME)]


class Strict(BaseModel):
    """A body of a request: no field that is not known, no value of another type."""

    model_config = ConfigDict(extra="forbid", strict=True)
