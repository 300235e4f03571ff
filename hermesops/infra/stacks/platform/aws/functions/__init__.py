"""Functions that AWS calls: their component, and the sources that run there, each alone with AWS's own Python.

A program reads no file, so it is given the sources (``read_sources``).
"""

from collections.abc import Mapping
from importlib import resources

NAMES = ("redis_password", "token_claims")


def read_sources() -> Mapping[str, str]:
    """The text of each function by its name, as it is sent to AWS."""
    folder = resources.files(__name__)
    return {name: (folder / f"{name}.py").read_text(encoding="utf-8") for name in NAMES}
