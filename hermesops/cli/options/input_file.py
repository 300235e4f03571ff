"""A file that is given to a command, or its standard input."""

import sys
from pathlib import Path

from hermesops.errors import UsageError


def read(source: str) -> str:
    """The text of a file; of standard input for ``-``.

    Raises:
        UsageError: There is no such file, or it is no text.
    """
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{source}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{source}: not UTF-8") from None
