"""Upstream's lock file, read for our machines."""

import pytest
from packaging.requirements import Requirement

from hermesops.errors import RefusedError
from hermesops.machines.release.source.upstream_lock import build_pin, pins_of

HASHES = {name: str(number) * 64 for number, name in enumerate(("cp311", "cp314", "abi3", "any", "musl", "arm", "new"))}


def lock_of(*wheels: str, name: str = "lib", version: str = "1.0", hashed: bool = True) -> str:
    lines = [f'[[package]]\nname = "{name}"\nversion = "{version}"\nwheels = [']
    for wheel in wheels:
        digest = next(digest for key, digest in HASHES.items() if key in wheel)
        end = f', hash = "sha256:{digest}"' if hashed else ""
        lines.append(f'  {{ url = "https://files.invalid/{name}-{version}-{wheel}.whl"{end} }},')
    return "\n".join([*lines, "]\n"])


ANY = "py3-none-any"
CP311 = "cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64"
CP314 = "cp314-cp314-manylinux_2_28_x86_64"
ABI3 = "cp39-abi3-manylinux_2_34_x86_64"
MUSL = "cp311-cp311-musllinux_1_2_x86_64".replace("cp311-cp311", "cp311-cp311")
ARM = "cp311-cp311-manylinux_2_28_armv7l"
NEW = "cp311-cp311-manylinux_2_39_x86_64"


@pytest.mark.parametrize(
    ("python", "wheels", "chosen"),
    [
        ("3.11", (ANY, CP311, CP314, ABI3), "cp311"),
        ("3.14", (ANY, CP311, CP314, ABI3), "cp314"),
        ("3.13", (ANY, CP311, CP314, ABI3), "abi3"),
        ("3.13", (ANY, CP311), "any"),
    ],
)
def test_the_wheel_that_fits_best_is_pinned_alone(python: str, wheels: tuple[str, ...], chosen: str) -> None:
    (pin,) = pins_of(lock_of(*wheels), "lib==1.0 --hash=sha256:00\n", python)
    assert (pin.name, pin.version, pin.hashes) == ("lib", "1.0", frozenset({HASHES[chosen]}))


@pytest.mark.parametrize(
    ("wheels", "match"),
    [
        ((), "lib 1.0 has only a source archive for Python 3.11"),
        ((CP314,), "lib 1.0 has no wheel that fits"),
        ((MUSL,), "no wheel that fits"),
        (("cp311-cp311-manylinux_2_39_x86_64",), "no wheel that fits"),
        ((ARM,), "no wheel that fits"),
    ],
)
def test_a_library_without_a_wheel_for_machines_is_named(wheels: tuple[str, ...], match: str) -> None:
    lock = lock_of(*[wheel for wheel in wheels if any(key in wheel for key in HASHES)])
    with pytest.raises(RefusedError, match=match):
        pins_of(lock, "lib==1.0", "3.11")


def test_a_lock_without_hashes_is_refused_by_the_librarys_name() -> None:
    with pytest.raises(RefusedError, match=r"no hash for lib 1\.0"):
        pins_of(lock_of(ANY, hashed=False), "lib==1.0", "3.11")


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("lib @ git+https://git.invalid/lib@0123", "takes lib from 'git"),
        ("lib>=1.0", "no fixed version"),
        ("./folder", "no package"),
        ("other==2.0", r"has no other 2\.0"),
    ],
)
def test_a_library_that_is_on_no_index_is_named(line: str, match: str) -> None:
    with pytest.raises(RefusedError, match=match):
        pins_of(lock_of(ANY), line, "3.11")


@pytest.mark.parametrize(
    "marker",
    ["sys_platform == 'win32'", "python_full_version < '3.11'", "platform_machine == 'aarch64'", "os_name == 'nt'"],
)
def test_what_other_machines_need_is_left_out(marker: str) -> None:
    exported = (
        f"lib @ git+https://git.invalid/lib ; {marker}\nlib==1.0 ; sys_platform == 'linux' \\\n    --hash=sha256:0"
    )
    assert [pin.name for pin in pins_of(lock_of(ANY), exported, "3.11")] == ["lib"]


def test_packages_of_the_build_are_those_of_the_lock() -> None:
    lock = lock_of(ANY, name="setuptools", version="83.0.0")
    pin = build_pin(lock, Requirement("setuptools==83.0.0"))
    assert pin is not None
    assert (pin.version, pin.hashes) == ("83.0.0", frozenset({HASHES["any"]}))
    assert build_pin(lock, Requirement("setuptools<83")) is None


@pytest.mark.parametrize("lock", ["[", "package = 3", "nothing = 1"])
def test_what_is_no_lock_is_named(lock: str) -> None:
    with pytest.raises(RefusedError, match="cannot be read"):
        pins_of(lock, "lib==1.0", "3.11")
