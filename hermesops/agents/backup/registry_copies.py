"""Copies of an SQLite registry, compared with the vendor's machines."""

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
    """Contents of a copy of the registry, compared with the vendor's machines.

    Attributes:
        unknown: Names of the vendor's machines that the copy lacks; ``None`` where the vendor did not answer.
        problem: Error of the vendor; empty where it answered.
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
        """Copy the registry now, at an operator's request."""
        return _listed(self.place.copies.take(BY_HAND), datetime.now(UTC))

    def list(self) -> list[Listed]:
        """List all copies of the registry, the newest first."""
        now = datetime.now(UTC)
        return [_listed(copy, now) for copy in self.place.copies.list()]

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
            machine.name
            for machine in machines
            if is_machine_name(machine.name, environment)
            and not is_build_machine(machine.name, environment)
            and machine.status is not MachineStatus.DELETED
            and machine.id not in content.machines
        )
    )


def _listed(copy: Copy, now: datetime) -> Listed:
    try:
        instances = content_of(copy.file).instances
    except BrokenInvariantError:
        instances = None
    return Listed(copy, now - copy.taken_at, instances)
