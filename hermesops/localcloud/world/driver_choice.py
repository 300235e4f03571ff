"""The driver of a world's machines: ``nspawn`` for real ones from a base, ``sim`` for simulated ones."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from hermesops.base.extras import Extra, require
from hermesops.errors import Hint, RefusedError
from hermesops.localcloud.drivers.interface import SERVICE_PORTS, Driver
from hermesops.localcloud.drivers.nspawn.disks.base_image import has_base, read_definition
from hermesops.localcloud.drivers.nspawn.driver import NspawnDriver
from hermesops.localcloud.world.files import SIMULATED, WorldFiles, base_of, is_simulated, write_private

_PROGRAMS = ("systemd-nspawn", "mmdebstrap", "nft", "ip", "mkfs.ext4")


class DriverChoice:
    """The base and driver of one world, or those of its first start.

    Args:
        bases: Where built bases are kept, shared between worlds; ``None`` keeps them in the world's folder.
        driver: ``nspawn`` or ``sim``; empty for the driver of the world, or ``nspawn`` for a new world.
    """

    def __init__(self, files: WorldFiles, definition: Path, bases: Path | None, driver: str) -> None:
        self._files = files
        self._definition = definition
        self._bases = bases
        self._driver = driver

    @property
    def base(self) -> str:
        """The world's base; empty before its first start."""
        return base_of(self._files.folder)

    @property
    def is_simulated(self) -> bool:
        """Whether the machines of the world are simulated."""
        return is_simulated(self._files.folder, self._driver)

    @property
    def name(self) -> str:
        """The driver's name: ``nspawn`` or ``sim``."""
        return "sim" if self.is_simulated else "nspawn"

    def refuse_another(self) -> None:
        """Refuse another base or driver: a world keeps both until it is purged, or its images would not fit machines.

        Raises:
            RefusedError: The settings name another one.
        """
        base, definition = self.base, self._definition.name
        if self._driver and base and (base == SIMULATED) != (self._driver == "sim"):
            raise RefusedError(
                f"the local world's machines are run by driver {self.name}, not by {self._driver}",
                hint=Hint("to start over with another driver:", ("local", "down", "--purge")),
            )
        if base not in {"", definition, SIMULATED}:
            raise RefusedError(
                f"the local world uses base {base}, and local.base is {definition}",
                hint=Hint("reset local.base, or start over:", ("local", "down", "--purge")),
            )

    def refuse_incapable(self) -> None:
        """Check that this computer can run its machines.

        Raises:
            RefusedError: They need root, or programs that this computer lacks.
        """
        if self.is_simulated:
            return
        if os.geteuid() != 0:
            raise RefusedError("local machines need root", hint="run it as root, or use a remote environment")
        missing = [program for program in _PROGRAMS if shutil.which(program) is None]
        if missing:
            raise RefusedError(
                f"this computer lacks {', '.join(missing)}",
                hint="apt-get install systemd-container mmdebstrap nftables iproute2 e2fsprogs",
            )

    @property
    def lacks_base(self) -> bool:
        """Whether the base of its machines has to be built first."""
        bases = self._bases or self._files.folder / "bases"
        return not self.is_simulated and not has_base(read_definition(self._definition), bases)

    def record(self) -> None:
        """Write the base down, now that the world is up."""
        write_private(self._files.base, (SIMULATED if self.is_simulated else self._definition.name).encode())

    def build(self, report: Callable[[str], None]) -> Driver:
        """The driver; it reports long work to ``report``.

        Raises:
            UsageError: The extra that serves simulated machines is missing.
        """
        if self.is_simulated:
            require(Extra.LOCAL, "a world of simulated machines")
            from hermesops.localcloud.drivers.sim.driver import SimDriver  # noqa: PLC0415 - real worlds have no use for it

            return SimDriver(self._files.folder)
        return NspawnDriver(
            self._files.folder,
            definition=self._definition,
            bases=self._bases,
            service_ports=SERVICE_PORTS,
            report=report,
        )
