"""What a world stands on, a base or nothing but records, and so what runs its machines."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from hermesops.errors import RefusedError
from hermesops.localcloud.drivers.host_driver import MODEL_PORT, OBJECT_STORE_PORT, PLATFORM_PORT, HostDriver
from hermesops.localcloud.drivers.nspawn.driver import NspawnDriver
from hermesops.localcloud.world.layout import Places
from hermesops.localcloud.world.machine_kind import SIMULATED, base_of
from hermesops.localcloud.world.private_files import write_private

_PROGRAMS = ("systemd-nspawn", "mmdebstrap", "nft", "ip", "mkfs.ext4")


class Footing:
    """What one world stands on, or will once it is up.

    Args:
        places: Where things of the world are.
        definition: Folder that describes the base machines boot from.
        bases: Where built bases are kept, shared between worlds; ``None`` keeps them in the world's folder.
        wanted: What shall run its machines, ``nspawn`` or ``sim``; empty for what runs them already, else ``nspawn``.
    """

    def __init__(self, places: Places, definition: Path, bases: Path | None, wanted: str) -> None:
        self._places = places
        self._definition = definition
        self._bases = bases
        self._wanted = wanted

    @property
    def name(self) -> str:
        """What it stands on; empty when the world has never been up."""
        return base_of(self._places.folder)

    @property
    def is_simulated(self) -> bool:
        """Whether its machines are simulated."""
        return (self.name or (SIMULATED if self._wanted == "sim" else "")) == SIMULATED

    @property
    def driver(self) -> str:
        """What runs its machines: ``nspawn`` or ``sim``."""
        return "sim" if self.is_simulated else "nspawn"

    def refuse_another(self) -> None:
        """A world keeps its base until it is purged, lest its images be of one and its new machines of another."""
        stands_on, wanted = self.name, self._definition.name
        if self._wanted and stands_on and (stands_on == SIMULATED) != (self._wanted == "sim"):
            raise RefusedError(
                f"the local world's machines are run by driver {self.driver}, not by {self._wanted}",
                hint="to begin anew with another driver: hermesops local down --purge",
            )
        if stands_on not in {"", wanted, SIMULATED}:
            raise RefusedError(
                f"the local world stands on {stands_on}, and local_base says {wanted}",
                hint="set local_base back, or begin anew: hermesops local down --purge",
            )

    def refuse_incapable(self) -> None:
        """Let its machines be run here.

        Raises:
            RefusedError: They want root, or programs that this computer lacks.
        """
        if not self.is_simulated:
            _require_root_and_programs()

    def keep(self) -> None:
        """Write down what it stands on, now that the world is up."""
        base = SIMULATED if self.is_simulated else self._definition.name
        write_private(self._places.base, base.encode())

    def driver_of(self, tell: Callable[[str], None]) -> HostDriver:
        """Make what runs its machines; narration goes to ``tell``."""
        if self.is_simulated:
            from hermesops.localcloud.drivers.sim.driver import SimDriver  # noqa: PLC0415 - real worlds have no use for it

            return SimDriver(self._places.folder)
        return NspawnDriver(
            self._places.folder,
            definition=self._definition,
            bases=self._bases,
            service_ports=(MODEL_PORT, OBJECT_STORE_PORT, PLATFORM_PORT),
            tell=tell,
        )


def _require_root_and_programs() -> None:
    if os.geteuid() != 0:
        raise RefusedError("local machines need root", hint="run it as root, or use a remote environment")
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if missing:
        raise RefusedError(
            f"this computer lacks {', '.join(missing)}",
            hint="apt-get install systemd-container mmdebstrap nftables iproute2 e2fsprogs",
        )
