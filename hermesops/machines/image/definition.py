"""An image folder: reads its definition and derives the digest of its inputs.

It reads files and nothing else: no network, no machine.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermesops.base import assets
from hermesops.errors import UsageError
from hermesops.model.unknown_name import unknown_name

FILE = "definition.toml"


@dataclass(frozen=True)
class AgentPins:
    """Versions of the agent, of uv and of SQLite in an image: tables ``[agent]``, ``[uv]``, ``[sqlite]``.

    Attributes:
        image: Name of the image.
        wanted: What was asked for when the locks were made, as ``hermes-agent[mcp]==0.19.0``.
        sdist: Requirement, with hash, of the agent's source archive.
        locks: Requirements, with hashes, of the agent's wheels by Python version (``3.11``).
        uv_sha256: Hash of uv's wheel for the machines.
        sqlite_url: Address of SQLite's amalgamation.
        sqlite_sha256: Of that archive.
    """

    image: str
    wanted: str
    sdist: Path
    locks: Mapping[str, Path]
    uv_version: str
    uv_sha256: str
    sqlite_url: str
    sqlite_sha256: str


@dataclass(frozen=True)
class Definition:
    """Content of ``definition.toml``, with every path absolute and known to exist.

    Attributes:
        prepare: Script for the builder, once the roles are through; one shell reads its files one after the other.
        clean: Script that removes from the builder what must not be in an image.
        prove: Script that checks a machine booted from the image.
        agent: The agent in it; ``None`` for an image without one, as the platform's.
    """

    name: str
    folder: Path
    playbook: str
    roles: tuple[str, ...]
    prepare: tuple[Path, ...]
    clean: tuple[Path, ...]
    prove: tuple[Path, ...]
    agent: AgentPins | None


def load(folder: Path) -> Definition:
    """Read one image folder.

    Raises:
        UsageError: It has no definition, or one that names something absent or lacks something.
    """
    path = folder / FILE
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        defined = sorted(path.parent.name for path in folder.parent.glob(f"*/{FILE}"))
        raise unknown_name("image", folder.name, defined, where=f" in {folder.parent}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as cause:
        raise UsageError(f"{path}: {cause}") from cause
    try:
        return Definition(
            name=document["name"],
            folder=folder,
            playbook=document["playbook"],
            roles=tuple(document["roles"]),
            prepare=_script(folder, document["prepare"]),
            clean=_script(folder, document["clean"]),
            prove=_script(folder, document["prove"]),
            agent=_agent(folder, document) if document.keys() & {"agent", "uv", "sqlite"} else None,
        )
    except KeyError as missing:
        raise UsageError(f"{path} lacks {missing}") from missing
    except (AttributeError, TypeError) as cause:
        raise UsageError(f"{path}: a value of the wrong kind ({cause})") from cause


def of_image(name: str) -> Definition:
    """The definition of an image of hermesops; raises as ``load``."""
    return load(assets.folder("images") / name)


def agent_pins(image: str) -> AgentPins:
    """Versions of the agent in an image.

    Raises:
        UsageError: There is no such image, or it has no agent.
    """
    pins = of_image(image).agent
    if pins is None:
        raise UsageError(f"image {image} has no agent", hint="set image to one that has")
    return pins


def _agent(folder: Path, document: Mapping[str, Any]) -> AgentPins:
    agent, uv, sqlite = document["agent"], document["uv"], document["sqlite"]
    return AgentPins(
        image=document["name"],
        wanted=_file(folder, agent["wanted"]).read_text(encoding="utf-8").strip(),
        sdist=_file(folder, agent["sdist"]),
        locks={python: _file(folder, lock) for python, lock in agent["locks"].items()},
        uv_version=uv["version"],
        uv_sha256=uv["sha256"],
        sqlite_url=sqlite["url"],
        sqlite_sha256=sqlite["sha256"],
    )


def inputs_of(
    definition: Definition,
    *,
    roles: Path,
    playbooks: Path,
    variables: Mapping[str, object],
    extra: Mapping[str, Path],
) -> dict[str, str]:
    """SHA-256 of everything the image depends on, by a name that is the same on every computer.

    Args:
        roles: Folder of all roles; those the definition names count, except their READMEs.
        variables: Extra variables of the roles; no secrets.
        extra: More files or folders that end up in the image, by name.

    Raises:
        UsageError: A role, playbook or file is not there.
    """
    inputs = {f"image/{name}": digest for name, digest in _digests(definition.folder)}
    scripts = {*definition.prepare, *definition.clean, *definition.prove}
    shared = (script for script in scripts if not script.is_relative_to(definition.folder.resolve()))
    inputs |= {f"images/{script.name}": _sha256(script.read_bytes()) for script in shared}
    for role in definition.roles:
        inputs |= {f"roles/{role}/{name}": digest for name, digest in _digests(_folder(roles, role))}
    inputs[f"playbooks/{definition.playbook}"] = _sha256(_file(playbooks, definition.playbook).read_bytes())
    inputs["variables"] = _sha256(json.dumps(variables, sort_keys=True).encode())
    for label, path in extra.items():
        if path.is_dir():
            inputs |= {f"{label}/{name}": digest for name, digest in _digests(path)}
        else:
            inputs[label] = _sha256(_file(path.parent, path.name).read_bytes())
    return dict(sorted(inputs.items()))


def digest_of(inputs: Mapping[str, str]) -> str:
    """One SHA-256 over all inputs; it does not depend on their order."""
    return _sha256("".join(f"{digest}  {name}\n" for name, digest in sorted(inputs.items())).encode())


def _digests(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "README.md" and "__pycache__" not in path.parts:
            yield path.relative_to(folder).as_posix(), _sha256(path.read_bytes())


def _script(folder: Path, names: object) -> tuple[Path, ...]:
    if not isinstance(names, list) or not names:
        raise TypeError("scripts are lists of files")
    return tuple(_file(folder, name) for name in names)


def _file(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if not path.is_file():
        raise UsageError(f"{path} is not there")
    return path


def _folder(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_dir():
        raise UsageError(f"{path} is not there")
    return path


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
