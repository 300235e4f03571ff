"""Upstream's own lock file: each library's version, and the one wheel of it that our machines take. Pure.

Source: ``uv.lock`` version 1 and the output of ``uv export`` (uv 0.13); PEP 425 and PEP 600 (tags of wheels).
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.markers import Marker, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from hermesops.errors import RefusedError
from hermesops.machines.image.packages.download import NEWEST_GLIBC
from hermesops.machines.release.requirements import Pin

LOCK = "uv.lock"
_OLDEST_GLIBC = 5
_OPTION = re.compile(r"\s--hash=")
_SHA256 = re.compile(r"sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class _Wheel:
    name: str
    sha256: str


def pins_of(lock: str, exported: str, python: str) -> tuple[Pin, ...]:
    """One pin for each library that the agent has on a machine with that Python, each with one wheel's hash.

    Args:
        lock: The text of ``uv.lock``.
        exported: The libraries with their markers, as ``uv export`` prints that lock.
        python: As ``3.11``.

    Raises:
        RefusedError: The lock has no hash for a library, or no wheel for our machines, or the library is on no index.
    """
    try:
        packages = tomllib.loads(lock)["package"]
        offered: dict[tuple[str, str], Any] = {
            (canonicalize_name(package["name"]), package.get("version", "")): package for package in packages
        }
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError) as error:
        raise RefusedError(f"{LOCK} cannot be read: {error}", hint="a lock of uv, version 1") from error
    tags = {tag: rank for rank, tag in enumerate(_tags(python))}
    pins = [_pin(name, version, offered, tags, python) for name, version in _wanted(exported, python)]
    return tuple(sorted(pins, key=lambda pin: pin.name))


def build_pin(lock: str, requirement: Requirement) -> Pin | None:
    """A wheel for every Python that a lock has for a requirement of the build; ``None`` where it has none."""
    for package in tomllib.loads(lock).get("package", []):
        if canonicalize_name(str(package.get("name"))) != canonicalize_name(requirement.name):
            continue
        version = str(package.get("version", ""))
        for wheel in _wheels(package):
            if requirement.specifier.contains(version) and wheel.name.endswith("-py3-none-any.whl"):
                return Pin(canonicalize_name(requirement.name), version, frozenset({wheel.sha256}))
    return None


def _wanted(exported: str, python: str) -> Iterator[tuple[str, str]]:
    environment = _environment(python)
    for line in exported.replace("\\\n", " ").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        text = _OPTION.split(line)[0].strip()
        try:
            requirement = Requirement(text)
            if not _applies(requirement.marker, environment):
                continue
        except (InvalidRequirement, UndefinedEnvironmentName) as error:
            raise RefusedError(f"{LOCK} wants something that is no package: {text[:100]!r}") from error
        versions = list(requirement.specifier)
        if requirement.url or len(versions) != 1 or versions[0].operator != "==":
            where = (requirement.url or "no fixed version")[:100]
            raise RefusedError(f"{LOCK} takes {requirement.name} from {where!r}, not from an index")
        yield canonicalize_name(requirement.name), versions[0].version


def _applies(marker: Marker | None, environment: Mapping[str, str]) -> bool:
    return marker is None or marker.evaluate(dict(environment))


def _pin(name: str, version: str, offered: Mapping[tuple[str, str], Any], tags: Mapping[Tag, int], python: str) -> Pin:
    package = offered.get((name, version))
    if package is None:
        raise RefusedError(f"{LOCK} has no {name} {version}, which it wants itself: it is damaged")
    wheels = _wheels(package)
    fitting = [(rank, wheel) for wheel in wheels if (rank := _rank(wheel.name, tags)) is not None]
    if not fitting:
        has = "only a source archive" if not wheels else "no wheel that fits"
        raise RefusedError(
            f"{name} {version} has {has} for Python {python} on x86_64 Linux with glibc 2.{NEWEST_GLIBC}: "
            "hermesops compiles no libraries",
            hint="let the release bring another Python, or wait for a wheel",
        )
    _, wheel = min(fitting, key=lambda item: (item[0], item[1].name))
    if not wheel.sha256:
        raise RefusedError(
            f"{LOCK} has no hash for {name} {version}", hint="a release takes libraries by hash alone; ask upstream"
        )
    return Pin(name, version, frozenset({wheel.sha256}))


def _wheels(package: Mapping[str, Any]) -> Sequence[_Wheel]:
    wheels = []
    for wheel in package.get("wheels", []):
        match = _SHA256.fullmatch(str(wheel.get("hash", "")))
        wheels.append(
            _Wheel(unquote(urlsplit(str(wheel.get("url", ""))).path.rsplit("/")[-1]), match[1] if match else "")
        )
    return wheels


def _rank(name: str, tags: Mapping[Tag, int]) -> int | None:
    try:
        ranks = [tags[tag] for tag in parse_wheel_filename(name)[3] if tag in tags]
    except InvalidWheelFilename:
        return None
    return min(ranks, default=None)


def _tags(python: str) -> Iterator[Tag]:
    version = tuple(int(part) for part in python.split("."))
    names = [f"manylinux_2_{minor}" for minor in range(NEWEST_GLIBC, _OLDEST_GLIBC - 1, -1)]
    older = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
    platforms = []
    for name in names:
        platforms.append(f"{name}_x86_64")
        if alias := older.get(int(name.rsplit("_", 1)[1])):
            platforms.append(f"{alias}_x86_64")
    platforms.append("linux_x86_64")
    yield from cpython_tags(version, platforms=platforms)
    yield from compatible_tags(version, platforms=platforms)


def _environment(python: str) -> Mapping[str, str]:
    """Our machines, as markers call them."""
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": "posix",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
        "extra": "",
    }
