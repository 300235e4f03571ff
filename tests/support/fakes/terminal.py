"""A terminal, and a command line that nobody has used yet."""

import io
from pathlib import Path

import pytest

from hermesops.cli import context


class Terminal(io.StringIO):
    """Somebody who types these lines, or reads what is written."""

    def isatty(self) -> bool:
        return True


def begin_anew(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Forget the environment that an earlier test chose; settings and keys are looked for in ``home``."""
    monkeypatch.setenv("HERMESOPS_HOME", str(home))
    monkeypatch.delenv("HERMESOPS_ENV", raising=False)
    monkeypatch.setattr(context, "_chosen", context._Chosen())
