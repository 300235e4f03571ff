"""Where test runs keep what is built once. It imports next to nothing: a look at it must not take a second."""

import os
import tempfile
from pathlib import Path


def shared_cache() -> Path:
    """What ``HERMESOPS_CACHE`` says in tests: programs, packages, environments and, below ``bases``, bases."""
    return Path(tempfile.gettempdir()) / "hermesops-test-cache"


def cached_bases() -> Path:
    """Where bases are kept: a folder that the environment names, or the one that commands in tests use."""
    named = os.environ.get("HERMESOPS_TEST_BASES")  # noqa: TID251 - the tests' own switch, not a setting
    return Path(named) if named else shared_cache() / "bases"
