"""Extras: packages that some commands need and most installations lack, and the error where one is missing.

Which packages an extra has is in ``pyproject.toml`` alone, and read from the metadata of the installed hermesops.
"""

import sys
import threading
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from shlex import join
from typing import TYPE_CHECKING

from hermesops.errors import UsageError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_NAME = "hermesops"
_PARSING = threading.Lock()


class Extra(StrEnum):
    """The extras of ``pyproject.toml``, but for ``all``, which is every one of them."""

    AWS = "aws"
    BILLING = "billing"
    BUILD = "build"
    CONSOLE = "console"
    LOCAL = "local"
    PLATFORM = "platform"
    ROLES = "roles"


def require(extra: Extra, purpose: str) -> None:
    """Return if the packages of an extra are installed.

    Args:
        purpose: Subject of the error's sentence: what cannot be done without them.

    Raises:
        UsageError: One is missing. The hint is the command that installs them.
    """
    if missing := _missing_packages(extra):
        raise UsageError(
            f"{purpose} needs extra {extra} of hermesops, which is not installed here (missing: {', '.join(missing)})",
            hint=f"run: {join(install_command(extra))}",
        )


def missing_extras() -> tuple[Extra, ...]:
    """The extras that lack a package here."""
    return tuple(extra for extra in Extra if _missing_packages(extra))


def install_command(*extras: Extra) -> list[str]:
    """The command that adds extras to the Python environment of this process."""
    requirement = f"{_NAME}[{','.join(extras)}]"
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", requirement]
    return ["uv", "pip", "install", "--python", sys.executable, requirement]


def _missing_packages(extra: Extra) -> list[str]:
    return [name for name in _packages_of(extra) if not _is_installed(name)]


def _packages_of(extra: Extra) -> Iterator[str]:
    from importlib import metadata  # noqa: PLC0415 - most commands need no extra

    with _PARSING:
        requirements = [_parsed(line) for line in metadata.requires(_NAME) or ()]
    for requirement in requirements:
        if requirement.marker is not None and requirement.marker.evaluate({"extra": extra}):
            yield requirement.name


@cache
def _parsed(line: str) -> "Requirement":
    """Parse a line of the metadata, once and in one thread at a time.

    packaging compiles the texts in it, and where two threads do that at once, CPython 3.11 may raise ``SystemError: AST
    constructor recursion depth mismatch`` (observed in a worker, 2026-11-30; python/cpython issue 106905).
    """
    from packaging.requirements import Requirement  # noqa: PLC0415 - as above

    return Requirement(line)


def _is_installed(package: str) -> bool:
    from importlib import metadata  # noqa: PLC0415 - as above

    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True
