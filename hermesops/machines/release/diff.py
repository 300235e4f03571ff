"""Differences between the contents of two releases. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hermesops.machines.release.requirements import pin_of
from hermesops.machines.release.sqlite import version_of
from hermesops.wire.documents.lock import Blob, Lock, Wheels


@dataclass(frozen=True)
class Difference:
    """One thing that is otherwise in another release.

    Attributes:
        what: As ``agent`` or ``python 3.11: aiohttp``.
        before: As it is in the first; empty for absent.
        after: As it is in the second; empty for absent.
    """

    what: str
    before: str
    after: str


def compare(before: Lock, after: Lock) -> tuple[Difference, ...]:
    """List all differences between two releases, the most important first."""
    return tuple(difference for difference in _differences(before, after) if difference.before != difference.after)


def _differences(before: Lock, after: Lock) -> Iterator[Difference]:
    yield Difference("agent", before.agent_version, after.agent_version)
    yield Difference("origin of the agent", before.origin, after.origin)
    yield Difference("configuration schema", str(before.config_schema), str(after.config_schema))
    yield Difference("own Python", _own_python(before), _own_python(after))
    yield Difference("SQLite", version_of(before.site), version_of(after.site))
    for python in sorted(before.pythons.keys() | after.pythons.keys()):
        yield from _packages(python, before.pythons.get(python), after.pythons.get(python))
    yield from _leaves("managed configuration", before.managed.config, after.managed.config)
    yield from _leaves("managed environment", before.managed.environment, after.managed.environment)
    yield _files("gateway's unit", before.unit, after.unit)
    yield _files("bundled skills", before.skills, after.skills)
    yield Difference("folders beside the wheel", _digest(before.resources), _digest(after.resources))
    yield from _leaves("file beside the packages", _hashes(before), _hashes(after))
    yield _files("uv", before.uv, after.uv)
    yield Difference("hermes-node's protocol", str(before.node.protocol), str(after.node.protocol))
    yield _files("hermes-node", before.node.program, after.node.program)


def _packages(python: str, before: Wheels | None, after: Wheels | None) -> Iterator[Difference]:
    if before is None or after is None:
        yield Difference(f"python {python}", "made for" if before else "", "made for" if after else "")
        return
    old, new = _versions(before), _versions(after)
    for name in sorted(old.keys() | new.keys()):
        yield Difference(f"python {python}: {name}", old.get(name, ""), new.get(name, ""))


def _versions(wheels: Wheels) -> dict[str, str]:
    pins = [(pin_of(wheel), wheel) for wheel in wheels.wheels]
    return {pin.name: f"{pin.version} {wheel.sha256[:12]}" for pin, wheel in pins}


def _own_python(lock: Lock) -> str:
    return f"{lock.interpreter.version} {_digest(lock.interpreter.archive)}" if lock.interpreter else ""


def _digest(blob: Blob | None) -> str:
    return blob.sha256[:12] if blob else ""


def _files(what: str, before: Blob, after: Blob) -> Difference:
    return Difference(what, before.sha256[:12], after.sha256[:12])


def _hashes(lock: Lock) -> dict[str, str]:
    return {blob.name: blob.sha256[:12] for blob in lock.site}


def _leaves(what: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    old, new = dict(_flat(before)), dict(_flat(after))
    for path in sorted(old.keys() | new.keys()):
        yield Difference(f"{what}: {path}", old.get(path, ""), new.get(path, ""))


def _flat(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value if isinstance(value, str) else json.dumps(value, sort_keys=True)
