"""Finds the files that ship beside the code: roles, playbooks, project folders, images, runbooks.

In a checkout they stand at its top; in an installed wheel inside the package. Nothing else may know where.
"""

from pathlib import Path
from typing import Literal

from hermesops.errors import BrokenInvariantError

Folder = Literal["roles", "ansible", "pulumi", "images", "runbooks"]

_PACKAGE = Path(__file__).resolve().parents[1]
_PLACES = (_PACKAGE.parent, _PACKAGE / "_shipped")


def folder(name: Folder) -> Path:
    """The folder of that name, absolute; in a checkout the one being edited.

    Raises:
        BrokenInvariantError: The installation lacks it.
    """
    for place in _PLACES:
        # A bare "ansible" in site-packages is the Python package of that name, not ours: it has an __init__.py.
        candidate = place / name
        if candidate.is_dir() and not (candidate / "__init__.py").exists():
            return candidate
    raise BrokenInvariantError(f"this installation of hermesops has no {name} folder", hint="install the wheel again")
