"""Previews of changes as the text of a row: a worker makes them, and the served console shows them."""

from functools import cache

from pydantic import TypeAdapter, ValidationError

from hermesops.agents.instances.preview.change_preview import ChangePreview
from hermesops.errors import UnavailableError

PREVIEW = "dry run"
"""The reason of an operation that is not opened."""


@cache
def _adapter() -> TypeAdapter[ChangePreview]:
    return TypeAdapter(ChangePreview)


def text_of(preview: ChangePreview) -> str:
    """A preview as JSON."""
    return _adapter().dump_json(preview).decode()


def preview_of(text: str) -> ChangePreview:
    """The preview in a row.

    Raises:
        UnavailableError: It is of another hermesops.
    """
    try:
        return _adapter().validate_json(text)
    except ValidationError as error:
        raise UnavailableError("this preview is of another hermesops; repeat it") from error
