"""The files of a world: machines' records, images and their layers, each written whole."""

from dataclasses import asdict, dataclass
from pathlib import Path

from hermesops.base.files.private_file import make_private_folder
from hermesops.errors import BrokenInvariantError, Hint, RefusedError
from hermesops.localcloud.drivers.nspawn.disks.guest_files import remove_tree
from hermesops.localcloud.world.files import read_object, write_object
from hermesops.model.ids import ImageId, MachineId

_DAMAGED_HINT = Hint("remove the world:", ("local", "down", "--purge"))


@dataclass(frozen=True)
class MachineRecord:
    """The record of an ordered machine.

    Attributes:
        machine_id: The guest's own ``/etc/machine-id``.
        base: Folder of the base's root.
        vendor: Folder of the vendor's layer.
        layers: Image layers between vendor and the machine's own disk, the lowest first.
        made: Whether its disk was finished; anything else is half-made and is removed.
    """

    id: MachineId
    number: int
    machine_id: str
    hostname: str
    vcpu: int
    memory_mib: int
    disk_gib: int
    image_id: ImageId | None
    base: str
    vendor: str
    layers: tuple[str, ...]
    made: bool = False


@dataclass(frozen=True)
class ImageRecord:
    """An image: its base and its layers, the lowest first."""

    id: ImageId
    base: str
    layers: tuple[str, ...]
    bytes_used: int


class Store:
    """The records and layers in one world's folder.

    Attributes:
        extended_base: There once machines without an image boot from the base with the platform's packages.
    """

    def __init__(self, state: Path) -> None:
        self.state = state
        self.machines_folder = state / "machines"
        self._images = state / "images"
        self.layers = state / "layers"
        self.extended_base = state / "extended-base"

    def prepare(self) -> None:
        """Make the folders; root only, since disks hold users' secrets."""
        for folder in (self.state, self.machines_folder, self._images, self.layers):
            make_private_folder(folder)

    def home(self, machine_id: MachineId) -> Path:
        """The folder of a machine in the store."""
        if not machine_id or "/" in machine_id or machine_id.startswith("."):
            raise RefusedError(f"{machine_id!r} is no machine id")
        return self.machines_folder / machine_id

    def machines(self) -> dict[MachineId, MachineRecord | None]:
        """All machines' folders; None for one that has no record yet."""
        return {machine_id: self.machine(machine_id) for machine_id in self.machine_ids()}

    def machine_ids(self) -> list[MachineId]:
        """Ids of all machines that have a folder."""
        if not self.machines_folder.is_dir():
            return []
        return [MachineId(entry.name) for entry in self.machines_folder.iterdir() if not entry.name.startswith(".")]

    def sweep_machines(self) -> None:
        """Remove folders that a killed ``forget_machine`` left behind."""
        for gone in self.machines_folder.glob(".gone-*"):
            remove_tree(gone)

    def machine(self, machine_id: MachineId) -> MachineRecord | None:
        """One machine's record, if it has one."""
        path = self.home(machine_id) / "machine.json"
        raw = read_object(path, hint=_DAMAGED_HINT)
        if raw is None:
            return None
        try:
            return MachineRecord(**{**raw, "layers": tuple(raw["layers"])})
        except (KeyError, TypeError) as error:
            raise BrokenInvariantError(f"{path} is damaged: {error}", hint=_DAMAGED_HINT) from error

    def save_machine(self, record: MachineRecord) -> None:
        """Write a machine's record, as one step."""
        home = self.home(record.id)
        home.mkdir(mode=0o700, exist_ok=True)
        write_object(home / "machine.json", asdict(record))

    def forget_machine(self, machine_id: MachineId) -> None:
        """Remove a machine's folder with its disk; it must be unmounted."""
        home = self.home(machine_id)
        if home.exists():
            gone = home.with_name(f".gone-{machine_id}")
            remove_tree(gone)
            home.rename(gone)
            remove_tree(gone)

    def image(self, image_id: ImageId) -> ImageRecord:
        """One image's record.

        Raises:
            RefusedError: There is no such image here.
        """
        raw = read_object(self._images / f"{image_id}.json", hint=_DAMAGED_HINT)
        if raw is None:
            raise RefusedError(f"there is no image {image_id} in {self._images}", hint=Hint(("image", "list")))
        return ImageRecord(
            id=ImageId(str(raw["id"])),
            base=str(raw["base"]),
            layers=tuple(raw["layers"]),
            bytes_used=int(str(raw["bytes_used"])),
        )

    def images(self) -> list[ImageRecord]:
        """The records of all complete images."""
        if not self._images.is_dir():
            return []
        return [self.image(ImageId(path.stem)) for path in sorted(self._images.glob("[!.]*.json"))]

    def save_image(self, record: ImageRecord) -> None:
        """Write an image's record: from now on machines can boot from it."""
        write_object(self._images / f"{record.id}.json", asdict(record))

    def forget_image(self, image_id: ImageId) -> None:
        """Remove an image's record; absent is success."""
        (self._images / f"{image_id}.json").unlink(missing_ok=True)

    def sweep_layers(self, *, partial: bool) -> None:
        """Remove layers that no image and no machine uses.

        Args:
            partial: Also incomplete layers of a killed save; only while no copy is being made.
        """
        used = {layer for image in self.images() for layer in image.layers}
        used |= {layer for record in self.machines().values() if record for layer in record.layers}
        used |= {Path(record.vendor).name for record in self.machines().values() if record}
        for entry in self.layers.iterdir():
            is_needed = entry.name.removesuffix(".data") in used or entry.name.startswith("vendor-")
            if not is_needed and (partial or not entry.name.startswith(".")):
                remove_tree(entry)
