"""The set of packages that a Python installs: as the resolver prints it, and as a machine gets it. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from hermesops.errors import BrokenInvariantError, RefusedError
from hermesops.wire.documents.lock import Blob

_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?==(?P<version>[^ ;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """One package of the set.

    Attributes:
        name: As package indexes normalise it.
        hashes: SHA-256 of each file that may be taken for it.
    """

    name: str
    version: str
    hashes: frozenset[str]

    def to_line(self) -> str:
        """As pip and uv read it."""
        return f"{self.name}=={self.version} {' '.join(f'--hash=sha256:{digest}' for digest in sorted(self.hashes))}\n"


def parse(text: str) -> tuple[Pin, ...]:
    """Parse the output of ``uv pip compile --generate-hashes``.

    Raises:
        BrokenInvariantError: It says something that cannot be locked: a package without version or hash.
    """
    lines = text.replace("\\\n", " ").splitlines()
    return tuple(_pin(line) for line in lines if line.strip() and not line.startswith("#"))


def render(python: str, wheels: Iterable[Blob]) -> bytes:
    """Requirements for a machine: the package of every wheel with exactly that wheel's hash."""
    pins = sorted((pin_of(wheel) for wheel in wheels), key=lambda pin: pin.name)
    return f"# python {python}, x86_64\n{''.join(pin.to_line() for pin in pins)}".encode()


def pin_of(wheel: Blob) -> Pin:
    """The package that a wheel is, and nothing but that wheel.

    Raises:
        RefusedError: Its name is none of a wheel.
    """
    try:
        name, version, _, _ = parse_wheel_filename(wheel.name)
    except InvalidWheelFilename as error:
        raise RefusedError(f"{wheel.name} is not named as a wheel is", hint="name-version-py3-none-any.whl") from error
    return Pin(name, str(version), frozenset({wheel.sha256}))


def runs_everywhere(wheel: Blob) -> bool:
    """Whether a wheel is for every Python 3 and every platform: there is no other one of it worth fetching."""
    return Tag("py3", "none", "any") in parse_wheel_filename(wheel.name)[3]


def known_wheels(pins: Sequence[Pin], wheels: Iterable[Blob]) -> dict[str, Blob]:
    """The wheels among those kept that pins may be satisfied with, by the pins' names.

    Those kept were once taken for the same Python, so what was best for it then is best now.
    """
    pin_names = {digest: pin.name for pin in pins for digest in pin.hashes}
    return {pin_names[blob.sha256]: blob for blob in wheels if blob.sha256 in pin_names}


def _pin(line: str) -> Pin:
    match, hashes = _PIN.match(line), frozenset(_HASH.findall(line))
    if match is None or not hashes:
        raise BrokenInvariantError(f"the resolver left something without version or hash: {line.strip()[:80]}")
    return Pin(canonicalize_name(match["name"]), match["version"], hashes)
