"""Folders of a source tree that an agent looks for at runtime and its wheel lacks. Pure.

Source: hermes-agent 0.19.0, ``hermes_constants.py``, ``agent/i18n.py`` and ``hermes_cli/plugins.py``: the variables
that name those folders where the agent is not run from its tree; packagers of 0.21.5 set the same.
"""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping

from hermesops.errors import RefusedError
from hermesops.machines.release.source.archive import SourceFile, SourceTree

VARIABLES: Mapping[str, str] = {
    "locales": "HERMES_BUNDLED_LOCALES",
    "optional-mcps": "HERMES_OPTIONAL_MCPS",
    "optional-skills": "HERMES_OPTIONAL_SKILLS",
    "plugins": "HERMES_BUNDLED_PLUGINS",
}
"""The variable that names each folder; ``skills`` is a part of every release."""

RESOURCES = "resources.tar.gz"
_SKILLS = "skills"


def skills_of(tree: SourceTree) -> bytes:
    """The folder ``skills/`` of a tree.

    Raises:
        RefusedError: The tree has none.
    """
    files = {path: file for path, file in tree.files.items() if path.startswith(f"{_SKILLS}/")}
    if not files:
        raise RefusedError(f"{tree.name} holds no {_SKILLS}/", hint="name the archive of a tag's whole tree")
    return packed(files)


def lacking(tree: SourceTree, wheel: bytes) -> dict[str, SourceFile]:
    """The files of those folders, of each folder that the wheel does not have completely."""
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        names = set(archive.namelist())
    files: dict[str, SourceFile] = {}
    for folder in VARIABLES:
        own = {path: file for path, file in tree.files.items() if path.startswith(f"{folder}/") and _is_resource(path)}
        if own.keys() - names:
            files |= own
    return files


def variables_of(files: Mapping[str, SourceFile]) -> dict[str, str]:
    """The folder that each variable names, of the folders in a release."""
    folders = {path.split("/")[0] for path in files}
    return {VARIABLES[folder]: folder for folder in sorted(folders)}


def packed(files: Mapping[str, SourceFile]) -> bytes:
    """A tar.gz of files, of which the bytes depend on the files alone."""
    content = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=content, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for path in sorted(files):
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(files[path].content), 0o755 if files[path].executable else 0o644
            archive.addfile(member, io.BytesIO(files[path].content))
    return content.getvalue()


def _is_resource(path: str) -> bool:
    return "/__pycache__/" not in path and not path.endswith(".pyc")
