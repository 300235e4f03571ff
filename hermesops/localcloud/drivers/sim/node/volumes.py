"""The ``Volumes`` of hermes-node on a simulated machine: of the size that its order names, and always open."""

from pathlib import Path

from hermesops.localcloud.drivers.sim.disk import Disk
from hermesops.node.protocol import GB, VARIABLES
from hermesops.node.system.data_volume import VolumeState, wanted_gb


class SimVolumes:
    """One machine's.

    Args:
        disk: The machine's.
        disk_gib: How large that is, which counts where the order names no size.
    """

    def __init__(self, disk: Disk, disk_gib: int) -> None:
        self._disk = disk
        self._disk_gib = disk_gib

    def observe(self, place: Path) -> VolumeState:
        """See ``node.system.data_volume.observe``."""
        variables = self._disk.look(VARIABLES)
        size = wanted_gb(variables.data) * GB if variables else 0
        used = sum(len(entry.data) for entry in self._disk.below(str(place)).values())
        return VolumeState(size > 0, is_encrypted=False, size=size or self._disk_gib << 30, used=used)

    def exists(self, file: Path) -> bool:
        """See ``node.system.data_volume.exists``: the world mounts it, as it does for containers."""
        del file
        return False

    def identify(self, file: Path) -> str:
        """See ``node.system.data_volume.identify``; nobody asks."""
        return str(file)

    def open_volume(self, file: Path, place: Path, key: bytes, size: int) -> None:
        """See ``node.system.data_volume.open_volume``; it is open."""

    def fill_volume(self) -> None:
        """See ``node.system.data_volume.fill_volume``; it has its size from its order."""

    def close_volume(self, place: Path) -> None:
        """See ``node.system.data_volume.close_volume``; it goes with the machine."""
