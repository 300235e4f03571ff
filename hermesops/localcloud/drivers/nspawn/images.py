"""The images of an open world: a machine's disk as of one instant, kept as one more layer."""

import shutil
from pathlib import Path

from hermesops.errors import RefusedError, UnavailableError
from hermesops.localcloud.drivers.interface import SavedImage
from hermesops.localcloud.drivers.nspawn.computer.command import run
from hermesops.localcloud.drivers.nspawn.disks import guest_files
from hermesops.localcloud.drivers.nspawn.disks.disk import Disk, copy_volume, data_beside
from hermesops.localcloud.drivers.nspawn.disks.guest_files import remove_tree
from hermesops.localcloud.drivers.nspawn.machine import Machine
from hermesops.localcloud.drivers.nspawn.open_world import OpenWorld
from hermesops.localcloud.drivers.nspawn.store import ImageRecord
from hermesops.model.ids import ImageId, MachineId

_MAX_LAYERS = 100


class Images:
    """Saves, restores and deletes images of an open world."""

    def __init__(self, world: OpenWorld) -> None:
        self._world = world
        self._store = world.store

    def save(self, machine_id: MachineId, image_id: ImageId) -> SavedImage:
        """Copy a machine's disk into the store; a running machine is frozen meanwhile.

        Raises:
            UnavailableError: The copy failed, for instance for want of space; nothing is left of it.
        """
        known = next((image for image in self._store.images() if image.id == image_id), None)
        if known:
            return SavedImage(known.id, known.bytes_used)
        with self._world.locks[machine_id]:
            record = self._world.record(machine_id)
            if len(record.layers) >= _MAX_LAYERS:
                raise RefusedError(f"machine {machine_id} stands on {_MAX_LAYERS} layers; build a fresh image")
            layer = self._store.layers / str(image_id)
            copying = self._store.layers / f".{image_id}.copying"
            _remove_layer(copying)
            try:
                self._copy_disk(self._world.machine(record), copying)
            except BaseException:
                _remove_layer(copying)
                raise
            image = ImageRecord(image_id, record.base, (*record.layers, layer.name), _bytes_used(copying))
            with self._world.layers_lock:
                _remove_layer(layer)
                if data_beside(copying).exists():
                    data_beside(copying).rename(data_beside(layer))
                copying.rename(layer)
                self._store.save_image(image)
        return SavedImage(image.id, image.bytes_used)

    def _copy_disk(self, machine: Machine, target: Path) -> None:
        running = bool(machine.group.pids())
        try:
            if running:
                with machine.group.frozen():
                    _copy(machine.disk, target)
            else:
                machine.mount()
                _copy(machine.disk, target)
        except UnavailableError as error:
            free = shutil.disk_usage(self._store.state).free // 2**20
            raise UnavailableError(
                f"the disk of machine {machine.record.id} could not be copied ({free} MiB free): {error.message}"
            ) from error
        finally:
            if not running:
                machine.disk.unmount()
        guest_files.forget_secrets(target)
        run(["sync", "-f", str(target)])

    def restore(self, machine_id: MachineId, image_id: ImageId) -> None:
        """Replace a machine's disk by an image of it; it keeps its size, address and daemon's bearer.

        Raises:
            RefusedError: The image is not here, or of a machine that stands on other layers.
            UnavailableError: The copy failed; the disk is as it was.
        """
        image = self._store.image(image_id)
        with self._world.locks[machine_id]:
            record = self._world.record(machine_id)
            if (image.base, image.layers[:-1]) != (record.base, record.layers):
                raise RefusedError(f"image {image_id} is not of machine {machine_id}")
            machine = self._world.machine(record)
            was_on = bool(machine.group.pids())
            machine.take_down()
            machine.mount()
            settings = guest_files.daemon_settings(machine.disk.root)
            machine.disk.unmount()
            upper = self._store.layers / image.layers[-1]
            machine.disk.refill(
                upper, data_beside(upper), lambda fresh: guest_files.give_daemon_settings(fresh, settings)
            )
            if was_on:
                machine.boot()

    def delete(self, image_id: ImageId) -> None:
        """Remove an image that no machine uses; absent is success.

        Raises:
            RefusedError: A machine stands on it.
        """
        with self._world.layers_lock:
            records = self._store.machines().values()
            users = [record.id for record in records if record and str(image_id) in record.layers]
            if users:
                raise RefusedError(f"image {image_id} is used by machine {users[0]}", hint="delete the machine first")
            self._store.forget_image(image_id)
            self._store.sweep_layers(partial=False)


def _copy(disk: Disk, target: Path) -> None:
    disk.volume.settle()
    run(["cp", "-a", "--sparse=auto", str(disk.upper), str(target)])
    copy_volume(disk.volume.file, data_beside(target))


def _remove_layer(layer: Path) -> None:
    remove_tree(layer)
    remove_tree(data_beside(layer))


def _bytes_used(layer: Path) -> int:
    both = [path for path in (layer, data_beside(layer)) if path.exists()]
    return sum(int(run(["du", "-s", "-B1", str(path)]).split()[0]) for path in both)
