"""Files of the stand-ins of messengers: those of people, which the bot may read, and those that the bot sent."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response


@dataclass(frozen=True)
class VendorFile:
    """A file.

    Attributes:
        media_type: As the sender's app says.
    """

    name: str
    content: bytes = field(repr=False)
    media_type: str = "application/octet-stream"

    @property
    def shown(self) -> str:
        """As a chat shows it."""
        return f"[{self.name}, {len(self.content)} bytes]"


class VendorFiles:
    """Files by the ids that a messenger gives them.

    Args:
        alphabet: Of ids; ``prefix`` is before each.
    """

    def __init__(self, prefix: str = "", alphabet: str = "0123456789", digits: int = 16) -> None:
        self._prefix, self._alphabet, self._digits = prefix, alphabet, digits
        self._files: dict[str, VendorFile] = {}

    def add(self, file: VendorFile) -> str:
        """Keep a file; returns its id."""
        id_ = self._prefix + "".join(secrets.choice(self._alphabet) for _ in range(self._digits))
        self._files[id_] = file
        return id_

    def get(self, id_: str) -> VendorFile | None:
        """A file; ``None`` where there is none."""
        return self._files.get(id_)

    def answer(self, id_: str) -> Response:
        """The content of a file, as a messenger's host of files answers."""
        file = self._files.get(id_)
        return Response(file.content, media_type=file.media_type) if file else Response(status_code=404)


async def form_of(request: Request, field_name: str) -> tuple[Mapping[str, str], VendorFile | None]:
    """The texts of a form, and its file."""
    async with request.form(max_part_size=64 << 20) as form:
        fields = {key: value for key, value in form.items() if isinstance(value, str)}
        upload = form.get(field_name)
        if not isinstance(upload, UploadFile):
            return fields, None
        content = await upload.read()
        return fields, VendorFile(upload.filename or "", content, upload.content_type or "")
