"""Files that commands read and write; ``-`` is standard input."""

import codecs
import sys
from pathlib import Path

from hermesops.errors import Hint, RefusedError, UsageError

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""Spreadsheets write "Unicode text" so."""


def read(source: str) -> str:
    """The text of a file; of standard input for ``-``. In UTF-8, or in UTF-16 if it says so at its beginning.

    Raises:
        UsageError: There is no such file, or it is not such text.
    """
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        encoding = "utf-16" if data.startswith(_UTF_16) else "utf-8-sig"
        return data.decode(encoding).replace("\r\n", "\n")
    except OSError as error:
        raise UsageError(f"{source}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{source}: not UTF-8", hint="save it as UTF-8; in a spreadsheet, as CSV UTF-8") from None


def read_bytes(source: str, *, most: int) -> bytes:
    """The bytes of a file, one more than ``most`` at most; of standard input for ``-``.

    Raises:
        UsageError: There is no such file.
    """
    try:
        if source == "-":
            return sys.stdin.buffer.read(most + 1)
        with Path(source).open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise UsageError(f"{source}: {error.strerror or error}") from None


SAVED_BYTES = 64 * 1024 * 1024
"""A preview of 500 machines has 2 MB; a larger file is none, and is not read to its end."""


def read_saved(file: Path) -> str:
    """The text of a saved preview, list or approval.

    Raises:
        UsageError: There is no such file, it is too large, or it is not text in UTF-8.
    """
    hint = Hint(("stack", "preview", "CELL", "--save", "FILE"))
    data = read_bytes(str(file), most=SAVED_BYTES)
    if len(data) > SAVED_BYTES:
        raise UsageError(f"{file}: larger than {SAVED_BYTES // 1024**2} MiB, so it is no saved preview", hint=hint)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{file}: not UTF-8", hint=hint) from None


def write_saved(file: Path, text: str) -> None:
    """Write a saved preview, list or approval.

    Raises:
        RefusedError: The file cannot be written.
    """
    try:
        file.write_text(text)
    except OSError as error:
        raise RefusedError(f"{file} cannot be written: {error.strerror}") from error
