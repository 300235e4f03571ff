"""Copies of an SQLite registry, compared with what the vendor has."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hermesops.access.registry_place import RegistryPlace
from hermesops.errors import BrokenInvariantError, HermesError
from hermesops.machines.image.machines import is_build_machine
from hermesops.model.ids import is_machine_name
from hermesops.store.registry.maintenance.backup import BY_HAND, Copy, CopyContent, content_of, taken_at
from hermesops.vendor.justavps import Client
from hermesops.vendor.justavps.wire import Machine, MachineStatus


@dataclass(frozen=True)
class Listed:
    """A copy with its age.

    Attributes:
        instances: How many that are not terminated; ``None`` where it is damaged.
    """

    copy: Copy
    age: timedelta
    instances: int | None


@dataclass(frozen=True)
class CopyPreview:
    """What a restored copy would know.

    Attributes:
        unknown: Names of the vendor's machines that it does not know; ``None`` where the vendor did not answer.
        problem: Why not.
    """

    file: Path
    taken_at: datetime
    age: timedelta
    instances: int
    unknown: tuple[str, ...] | None
    problem: str = ""


@dataclass(frozen=True)
class RegistryCopies:
    """The copies of one environment's registry."""

    environment: str
    place: RegistryPlace
    vendor: Callable[[], AbstractAsyncContextManager[Client]]

    def take(self) -> Listed:
        """Make one now."""
        return _listed(self.place.copies.take(BY_HAND), datetime.now(UTC))

    def list(self) -> list[Listed]:
        """All, the newest first."""
        now = datetime.now(UTC)
        return [_listed(one, now) for one in self.place.copies.list()]

    async def preview(self, copy: Path | None) -> CopyPreview:
        """Compare a copy, or the newest one, with the vendor's list; changes nothing.

        Raises:
            RefusedError: There is no copy.
            BrokenInvariantError: It is damaged.
        """
        file = self.place.copy_or_newest(copy)
        content, at = content_of(file), taken_at(file)
        age = datetime.now(UTC) - at
        try:
            async with self.vendor() as client:
                unknown = unknown_to(content, await client.list_machines(), self.environment)
        except HermesError as error:
            return CopyPreview(file, at, age, content.instances, None, error.message)
        return CopyPreview(file, at, age, content.instances, unknown)


def unknown_to(content: CopyContent, machines: Sequence[Machine], environment: str) -> tuple[str, ...]:
    """Names of an environment's machines that a copy does not know. Pure."""
    return tuple(
        sorted(
            one.name
            for one in machines
            if is_machine_name(one.name, environment)
            and not is_build_machine(one.name, environment)
            and one.status is not MachineStatus.DELETED
            and one.id not in content.machines
        )
    )


def _listed(copy: Copy, now: datetime) -> Listed:
    try:
        instances = content_of(copy.file).instances
    except BrokenInvariantError:
        instances = None
    return Listed(copy, now - copy.taken_at, instances)
