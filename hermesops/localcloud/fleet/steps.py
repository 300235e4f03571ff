"""The next step for one machine and the plan its driver gets. Pure: decided from the row and an observation alone."""

import json
from enum import StrEnum

from hermesops.localcloud.drivers.interface import MachinePlan, MachinePower, MachineSize
from hermesops.localcloud.fleet.catalog import SERVER_TYPES
from hermesops.localcloud.store.rows import MachineRow, MachineStatus, Wanted
from hermesops.model.ids import ImageId, MachineId


def size_of(server_type: str) -> MachineSize:
    """The size of a machine of a server type."""
    kind = SERVER_TYPES[server_type]
    return MachineSize(kind.vcpu, kind.ram_gb * 1024, kind.disk_gb)


def plan_of(row: MachineRow) -> MachinePlan:
    """The plan of a machine, always the same: an interrupted create is repeated with it."""
    size = size_of(row.server_type)
    keys = [row.public_key, *json.loads(row.ssh_keys or "[]")]
    env = "".join(f"{name}={_quoted(value)}\n" for name, value in json.loads(row.env).items())
    config = {"slug": row.slug, "machine_token": row.machine_token, "callback_url": ""}
    return MachinePlan(
        id=MachineId(row.id),
        number=row.number,
        hostname=row.slug,
        daemon_token=row.daemon_token,
        image_id=ImageId(row.image_id) if row.image_id else None,
        vcpu=size.vcpu,
        memory_mib=size.memory_mib,
        disk_gib=size.disk_gib,
        files={
            "/etc/justavps/env": env.encode(),
            "/etc/justavps/config.json": json.dumps(config).encode(),
            "/root/.ssh/authorized_keys": "".join(f"{key}\n" for key in keys).encode(),
        },
        init_script=row.init_script,
    )


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"


class Step(StrEnum):
    """One step; ``REST`` when the wanted state is reached."""

    REMOVE = "remove"
    CREATE = "create"
    START = "start"
    STOP = "stop"
    REBOOT = "reboot"
    RESIZE = "resize"
    RESTORE = "restore"
    AWAIT = "await"
    RECORD_READY = "record_ready"
    RECORD_STOPPED = "record_stopped"
    RECORD_OFF = "record_off"
    RECORD_LOST = "record_lost"
    REST = "rest"


def next_step(row: MachineRow, power: MachinePower, *, answers: bool) -> Step:
    """Decide from the stored row, the observed power, and whether the machine's daemon answers."""
    if row.wanted == Wanted.DELETED:
        return Step.REMOVE
    if not row.made:
        return Step.CREATE
    if power is MachinePower.ABSENT:
        # Its disk is gone. Making an empty one under the same id would pass for the machine that held the data.
        return Step.REST if row.status == MachineStatus.ERROR else Step.RECORD_LOST
    if row.restore or row.resize:
        return Step.RESTORE if row.restore else Step.RESIZE
    if row.wanted == Wanted.STOPPED:
        if power is not MachinePower.STOPPED:
            return Step.STOP
        return Step.REST if row.status == MachineStatus.STOPPED else Step.RECORD_STOPPED
    if power is MachinePower.STOPPED:
        # One that was ready powered itself off; only its owner starts it again.
        return Step.RECORD_OFF if row.status == MachineStatus.READY and not row.reboot else Step.START
    if row.reboot:
        return Step.REBOOT
    if not answers:
        return Step.AWAIT
    return Step.REST if row.status == MachineStatus.READY else Step.RECORD_READY
