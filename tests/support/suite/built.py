"""Builds and fetches once what tests need from elsewhere, before any of them runs: ``make built``.

On a new computer that takes a quarter of an hour, mostly for Loki. A test that finds something missing builds it by
itself, within its own time limit.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from hermesops.localcloud.drivers.nspawn.disks.base_image import ensure_base, read_definition
from tests.support.real import debian, sqlite
from tests.support.real.go_programs import ACTIONLINT, LOKI, VERSITYGW, GoProgram
from tests.support.real.machines import bases
from tests.support.real.python_environments import AGENT, LITELLM, LockedEnvironment
from tests.support.suite.kept import cached_bases

Reporter = Callable[[str], None]

_TELL_EVERY_S = 60.0


@dataclass(frozen=True)
class Part:
    """Something that tests need.

    Attributes:
        is_there: Whether it is kept here already; quick.
        make: Makes it, safely beside others that do; raises if it cannot be had.
    """

    name: str
    is_there: Callable[[], bool]
    make: Callable[[Reporter], Awaitable[object]]


def parts() -> tuple[Sequence[Part], ...]:
    """All parts, in lines: those of one line follow each other, the lines go side by side.

    Go compiles on every processor, so its programs are one line, what they share first; the other one mostly waits for
    package registries.
    """
    go = (_go("actionlint", ACTIONLINT), _go("versitygw", VERSITYGW), _go("Loki", LOKI))
    packages = Part("Prometheus, Alertmanager, nginx, Redis", _has_debian, _in_thread(_unpack))
    environments = (_environment("LiteLLM", LITELLM), _environment("hermes-agent", AGENT))
    library = Part("SQLite", sqlite.is_built, _in_thread(sqlite.library))
    base = (_base("the base"), _base("the platform's base", for_platform=True)) if os.geteuid() == 0 else ()
    return (library, *go), (*base, packages, *environments)


async def build(lines: Sequence[Sequence[Part]], say: Reporter) -> bool:
    """Make what is missing, with a line for each part; whether everything is there."""
    missing = [[part for part in line if not part.is_there()] for line in lines]
    done = await asyncio.gather(*(_line(line, say) for line in missing))
    return all(done)


async def _line(line: Sequence[Part], say: Reporter) -> bool:
    return all([await _made(part, say) for part in line])


async def _made(part: Part, say: Reporter) -> bool:
    began = reported = time.monotonic()

    def narrate(line: str) -> None:
        nonlocal reported
        if time.monotonic() - reported >= _TELL_EVERY_S:
            reported = time.monotonic()
            say(f"==> {line}")

    say(f"==> Building or fetching {part.name}")
    try:
        await part.make(narrate)
    except Exception as error:  # noqa: BLE001 - whatever it is, tests without this part can run
        say(f"==> {part.name} cannot be had: {error}")
        return False
    say(f"==> {part.name} is there after {time.monotonic() - began:.0f} s")
    return True


def _go(name: str, program: GoProgram) -> Part:
    return Part(name, program.place.exists, program.build)


def _in_thread(make: Callable[[Reporter], object]) -> Callable[[Reporter], Awaitable[object]]:
    return lambda report: asyncio.to_thread(make, report)


def _has_debian() -> bool:
    return all(map(debian.is_unpacked, (*debian.PLATFORM, *debian.REDIS)))


def _unpack(_: Reporter) -> None:
    if debian.unpacked(*debian.PLATFORM, *debian.REDIS) is None:
        raise LookupError("apt-get download does not work here")


def _environment(name: str, locked: LockedEnvironment) -> Part:
    def install(_: Reporter) -> None:
        if locked.python() is None:
            raise LookupError("there is no uv")

    return Part(name, lambda: locked.is_there, _in_thread(install))


def _base(name: str, *, for_platform: bool = False) -> Part:
    def bootstrap(report: Reporter) -> None:
        definition = read_definition(bases.tested_base())
        ensure_base(definition.for_platform() if for_platform else definition, cached_bases(), report)

    return Part(name, bases.manifest(for_platform=for_platform).exists, _in_thread(bootstrap))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(not asyncio.run(build(parts(), _say)))
