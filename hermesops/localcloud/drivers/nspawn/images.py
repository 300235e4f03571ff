"""The images of an open world: a machine's disk as of one instant, kept as one more layer."""

import shutil
from pathlib import Path

from hermesops.errors import RefusedError, UnavailableError
from hermesops.localcloud.drivers.nspawn.computer.command import run
from hermesops.localcloud.drivers.nspawn.disks import guest_files
from hermesops.localcloud.drivers.nspawn.disks.disk import Disk, copy_volume, data_beside
from hermesops.localcloud.drivers.nspawn.disks.guest_files import DAEMON_SETTINGS, remove_tree
from hermesops.localcloud.drivers.nspawn.machine import Machine
from hermesops.localcloud.drivers.nspawn.open_world import OpenWorld
from hermesops.localcloud.drivers.nspawn.store import ImageRecord
from hermesops.model.ids import ImageId, MachineId

_MAX_LAYERS = 100


def save(world: OpenWorld, machine_id: MachineId, image_id: ImageId) -> int:
    """Copy a machine's disk into the store, frozen meanwhile if it runs; return the size of the copy in bytes.

    Raises:
        UnavailableError: The copy failed, for instance for want of space; nothing is left of it.
    """
    store = world.store
    known = next((image for image in store.images() if image.id == image_id), None)
    if known:
        return known.bytes_used
    with world.locks[machine_id]:
        record = world.record(machine_id)
        if len(record.layers) >= _MAX_LAYERS:
            raise RefusedError(f"machine {machine_id} has {_MAX_LAYERS} layers; build a fresh image")
        layer, copying = store.layers / str(image_id), store.layers / f".{image_id}.copying"
        _remove_layer(copying)
        try:
            _copy_disk(world.machine(record), copying)
        except BaseException:
            _remove_layer(copying)
            raise
        both = [path for path in (copying, data_beside(copying)) if path.exists()]
        bytes_used = sum(int(run(["du", "-s", "-B1", str(path)]).split()[0]) for path in both)
        with world.layers_lock:
            _remove_layer(layer)
            if data_beside(copying).exists():
                data_beside(copying).rename(data_beside(layer))
            copying.rename(layer)
            store.save_image(ImageRecord(image_id, record.base, (*record.layers, layer.name), bytes_used))
    return bytes_used


def _copy_disk(machine: Machine, target: Path) -> None:
    running = bool(machine.group.pids())
    try:
        if running:
            with machine.group.frozen():
                _copy(machine.disk, target)
        else:
            machine.mount()
            _copy(machine.disk, target)
    except UnavailableError as error:
        free = shutil.disk_usage(target.parent).free // 2**20
        raise UnavailableError(
            f"the disk of machine {machine.record.id} could not be copied ({free} MiB free): {error.message}"
        ) from error
    finally:
        if not running:
            machine.disk.unmount()
    # What only the vendor knows of; the rest is the image builder's business.
    guest_files.remove(target, DAEMON_SETTINGS)
    run(["sync", "-f", str(target)])


def restore(world: OpenWorld, machine_id: MachineId, image_id: ImageId) -> None:
    """Replace a machine's disk by an image of it; it keeps its size, address and daemon's bearer.

    Raises:
        RefusedError: The image is not here, or of a machine that stands on other layers.
        UnavailableError: The copy failed; the disk is as it was.
    """
    image = world.store.image(image_id)
    with world.locks[machine_id]:
        record = world.record(machine_id)
        if (image.base, image.layers[:-1]) != (record.base, record.layers):
            raise RefusedError(f"image {image_id} is not of machine {machine_id}")
        machine = world.machine(record)
        was_on = bool(machine.group.pids())
        machine.take_down()
        machine.mount()
        settings = guest_files.read(machine.disk.root, DAEMON_SETTINGS)
        machine.disk.unmount()
        upper = world.store.layers / image.layers[-1]
        machine.disk.refill(
            upper, data_beside(upper), lambda fresh: guest_files.write(fresh, DAEMON_SETTINGS, settings)
        )
        if was_on:
            machine.boot()


def delete(world: OpenWorld, image_id: ImageId) -> None:
    """Remove an image that no machine uses; absent is success.

    Raises:
        RefusedError: A machine stands on it.
    """
    with world.layers_lock:
        records = world.store.machines().values()
        users = [record.id for record in records if record and str(image_id) in record.layers]
        if users:
            raise RefusedError(f"image {image_id} is used by machine {users[0]}", hint="delete the machine first")
        world.store.forget_image(image_id)
        world.store.sweep_layers(partial=False)


def _copy(disk: Disk, target: Path) -> None:
    disk.volume.settle()
    run(["cp", "-a", "--sparse=auto", str(disk.upper), str(target)])
    copy_volume(disk.volume.file, data_beside(target))


def _remove_layer(layer: Path) -> None:
    remove_tree(layer)
    remove_tree(data_beside(layer))
