"""``/api/hermes/chat/files``: files that users send along with a message."""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, File, UploadFile
from pydantic import BaseModel

from hermesops.api.parts import CurrentUser, Parts
from hermesops.errors import UsageError
from hermesops.users.chat.files import LARGEST, MOST, MOST_BYTES, TooManyFilesError, media_type_of, shown_name

router = APIRouter(tags=["chat"])


class FileAnswer(BaseModel):
    """An uploaded file; ``id`` goes with the message."""

    id: str
    name: str
    bytes: int
    kind: Literal["image", "text"]


@router.post("/chat/files", status_code=201)
async def upload_file(file: Annotated[UploadFile, File()], user: CurrentUser, parts: Parts) -> FileAnswer:
    """Upload a file for the next message: an image of at most 5 MB, or a text in UTF-8. It is kept for an hour."""
    await parts.chat.running(user)
    content, name = await file.read(LARGEST + 1), shown_name(file.filename or "")
    if len(content) > LARGEST:
        raise UsageError(f"{name}: a file has at most {LARGEST // 1_000_000} MB", field="file")
    media_type = media_type_of(name, content)
    kept = await asyncio.to_thread(parts.files.add, user, name, media_type, content, most=MOST, most_bytes=MOST_BYTES)
    if kept is None:
        raise TooManyFilesError(f"{name}: {MOST} files, or {MOST_BYTES // 1_000_000} MB, wait for a message already")
    kind = "image" if kept.is_image else "text"
    return FileAnswer.model_validate({"id": kept.id, "name": name, "bytes": len(content), "kind": kind})
