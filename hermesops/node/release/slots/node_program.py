"""hermes-node's own update: the new program beside the old one, and a link that says which of them is the machine's.

The new one is only used after it has answered, so a program that cannot even look at this machine is never the one
that would have to bring it back.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

from hermesops.node.layout import Layout
from hermesops.node.release.documents.lock import Blob
from hermesops.node.system import child_environment, files

_ANSWER_S = 60.0


def update_node(layout: Layout, program: Blob) -> str:
    """Have a release's own hermes-node be the machine's from here on; why not, or nothing."""
    link = layout.program
    version = link.parent / "versions" / program.sha256[:16]
    if os.path.realpath(link) == str(version):
        return ""
    version.parent.mkdir(mode=0o755, exist_ok=True)
    version.parent.chmod(0o755)
    making = version.with_name(f".{version.name}.making")
    shutil.copyfile(layout.blobs / program.sha256, making)
    making.chmod(0o755)
    files.sync(making)
    why = _refusal(making)
    if why:
        making.unlink()
        return why
    making.rename(version)
    _keep_former(link)
    files.point(link, f"versions/{version.name}")
    _forget_others(link, version)
    return ""


def _refusal(program: Path) -> str:
    try:
        done = subprocess.run(
            [program, "status"],
            capture_output=True,
            check=False,
            timeout=_ANSWER_S,
            cwd="/",
            env=child_environment.ENVIRONMENT,
        )
        told = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return f"the release's hermes-node does not answer: {error}"
    if done.returncode or not isinstance(told, dict) or "node" not in told:
        why = told.get("error", done.returncode) if isinstance(told, dict) else "no object"
        return f"the release's hermes-node does not know this machine: {why}"
    return ""


def _keep_former(link: Path) -> None:
    """A program that a role has put there becomes a version like the others."""
    if not link.is_symlink() and link.exists():
        link.with_name("versions").mkdir(exist_ok=True)
        (link.parent / "versions" / "role").unlink(missing_ok=True)
        (link.parent / "versions" / "role").hardlink_to(link)


def _forget_others(link: Path, version: Path) -> None:
    """Keep this one and the two before it: an older one may still run."""
    others = sorted((path for path in (link.parent / "versions").iterdir() if path != version), key=_age)
    for path in others[:-2]:
        path.unlink()


def _age(path: Path) -> float:
    return path.lstat().st_mtime
