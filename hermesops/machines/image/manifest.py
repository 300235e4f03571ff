"""Inputs and content of an image: one JSON file per image, written after the image was proved.

Its shape is an interface: other tools compare manifests. ``schema`` rises when a field changes its meaning.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from hermesops.base.files.private_file import make_private_folder
from hermesops.errors import BrokenInvariantError
from hermesops.model.ids import ImageId

SCHEMA = 1


@dataclass(frozen=True)
class Manifest:
    """One image.

    Attributes:
        name: The folder below ``images/`` it was built from.
        digest: SHA-256 over all inputs.
        created_at: When it was proved.
        base: Distribution, version, architecture and Python of what it was built on.
        packages: Versions by package, under ``debian`` and, in an image with an agent, ``agent``.
        versions: Of what built it and of the agent in it.
        seconds: How long each step took; steps that were skipped are missing.
    """

    name: str
    image_id: ImageId
    digest: str
    created_at: datetime
    base: Mapping[str, object]
    inputs: Mapping[str, str]
    packages: Mapping[str, Mapping[str, str]]
    versions: Mapping[str, str]
    seconds: Mapping[str, float]

    def to_json(self) -> dict[str, object]:
        """As it is written; no secrets."""
        return {"schema": SCHEMA, **asdict(self), "created_at": self.created_at.isoformat()}


def write(manifest: Manifest, folder: Path) -> Path:
    """Put a manifest beside the others; whole or not at all."""
    make_private_folder(folder)
    path = folder / f"{manifest.name}-{manifest.digest[:12]}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(manifest.to_json(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    partial.replace(path)
    return path


def last_seconds(folder: Path, name: str) -> dict[str, float]:
    """Seconds of each step of the newest image of that name; empty where none is known."""
    newest = sorted(folder.glob(f"{name}-*.json"), key=lambda file: file.stat().st_mtime)[-1:]
    try:
        document = json.loads(newest[0].read_text(encoding="utf-8"))
        return {str(step): float(seconds) for step, seconds in document["seconds"].items()}
    except (IndexError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # only an estimate is lost


def find(folder: Path, name: str, digest: str) -> Manifest | None:
    """The manifest of an image that was built from exactly these inputs, if one was.

    Raises:
        BrokenInvariantError: There is a file for it that says something else.
    """
    path = folder / f"{name}-{digest[:12]}.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.pop("schema") != SCHEMA or document["digest"] != digest:
            return None
        return Manifest(**{**document, "created_at": datetime.fromisoformat(document["created_at"])})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as cause:
        raise BrokenInvariantError(
            f"{path} is not a manifest ({type(cause).__name__})", hint=f"remove {path}; the image is then proved again"
        ) from cause
