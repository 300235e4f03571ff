"""What a driver is told to make, from a machine's row. Pure."""

import json

from hermesops.localcloud.drivers.interface import MachinePlan, MachineSize
from hermesops.localcloud.fleet.catalog import SERVER_TYPES
from hermesops.localcloud.store.rows import MachineRow
from hermesops.model.ids import ImageId, MachineId


def size_of(server_type: str) -> MachineSize:
    """What a server type gives a machine."""
    kind = SERVER_TYPES[server_type]
    return MachineSize(kind.vcpu, kind.ram_gb * 1024, kind.disk_gb)


def plan_of(row: MachineRow) -> MachinePlan:
    """The same plan each time it is asked for: a create that was cut short is repeated with it."""
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
