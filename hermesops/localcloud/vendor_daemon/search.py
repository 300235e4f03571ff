"""Searches and replaces in files for the toolbox, by regular expression, line by line and file by file."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from . import files
from .http import HttpError

_MAX_RESULTS = 1000
_LONGEST_LINE = 500
_LARGEST = 16 * 1024 * 1024
"""Bytes of a file beyond which it is skipped: it is hardly text."""


def find(query: dict[str, str]) -> dict[str, object]:
    """Lines that match ``pattern`` in the files below ``path``; ``include`` narrows to files of such names.

    ``total`` counts the lines in the answer, not those that ``max_results`` kept out of it: so the vendor counts.
    """
    path = files.path_of(query.get("path"))
    pattern = _pattern(query.get("pattern"))
    include = query.get("include") or "*"
    limit = min(_MAX_RESULTS, max(1, files.number(query.get("max_results"), 100)))
    with files.translated(path):
        path.stat()
    found = (
        {"file": str(file), "line": number, "content": line[:_LONGEST_LINE]}
        for file in files.files_below(path, include)
        for number, line in _lines(file)
        if pattern.search(line)
    )
    matches = list(itertools.islice(found, limit))
    return {"matches": matches, "truncated": next(found, None) is not None, "total": len(matches)}


def replace(body: dict[str, object]) -> dict[str, object]:
    """Replace what matches ``pattern`` in each of ``files``; each file whole or not at all."""
    given, value = body.get("files"), body.get("new_value")
    if not isinstance(given, list) or not isinstance(value, str):
        raise HttpError(400, "bad_request", "files must be a list and new_value a string")
    pattern = _pattern(body.get("pattern"))
    paths = [files.path_of(each, "files") for each in given]
    return {"results": [{"file": str(path), "replacements": _replace(path, pattern, value)} for path in paths]}


def _replace(path: Path, pattern: re.Pattern[str], value: str) -> int:
    with files.translated(path):
        before = path.read_bytes().decode("utf-8", "surrogateescape")
        try:
            after, count = pattern.subn(value, before)
        except (re.error, IndexError) as error:
            raise HttpError(400, "bad_request", f"new_value: {error}") from error
        if count:
            files.rewrite(path, after.encode("utf-8", "surrogateescape"))
    return count


def _pattern(given: object) -> re.Pattern[str]:
    if not isinstance(given, str) or not given:
        raise HttpError(400, "bad_request", "pattern is missing")
    try:
        return re.compile(given)
    except re.error as error:
        raise HttpError(400, "bad_request", f"pattern: {error}") from error


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    try:
        if file.stat().st_size > _LARGEST:
            return
        data = file.read_bytes()
    except OSError:  # gone meanwhile, or of the kernel's that cannot be read
        return
    if b"\0" not in data:
        yield from enumerate(data.decode("utf-8", "replace").splitlines(), start=1)
