"""Several files in one zip for the toolbox, written while it is sent: it never lies on the disk or in memory."""

import zipfile

from . import files
from .http import ChunkedAnswer, HttpError, Request
from .search import files_below


class _Sink:
    """What ``zipfile`` writes to: it cannot seek, so sizes follow each file."""

    def __init__(self, answer: ChunkedAnswer) -> None:
        self._answer = answer

    def write(self, data: bytes) -> int:
        self._answer.send(data)
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""


def bulk_download(request: Request) -> None:
    """Send the files of ``paths``, and those below folders among them, under their own paths."""
    given = request.json().get("paths")
    if not isinstance(given, list) or not given:
        raise HttpError(400, "bad_request", "paths must be a list of paths")
    paths = [files.path_of(each, "paths") for each in given]
    for path in paths:
        with files.translated(path):
            path.stat()
    answer = ChunkedAnswer(request.connection, "application/zip")
    with zipfile.ZipFile(_Sink(answer), "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[call-overload]
        for path in paths:
            for file in files_below(path):
                archive.write(file, str(file).lstrip("/"))
    answer.close()
