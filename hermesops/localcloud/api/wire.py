"""Rows as the vendor writes them in JSON. Pure.

Every machine answer carries the machine's root private key in clear, lists too: that is the vendor's habit, and
clients must cope with it. The key opens nothing but the one throw-away machine.
"""

from ipaddress import IPv4Address

from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.fleet.catalog import PROVIDER, SERVER_TYPES
from hermesops.localcloud.store.rows import BackupRow, BackupStatus, ImageRow, MachineRow, MachineStatus, now

_SAID_CREATING_S = 5.0


def shown_status(row: MachineRow) -> str:
    """The status that the API shows, which a fault may falsify."""
    if row.status == MachineStatus.PROVISIONING and row.pretends == FaultKind.READY_EARLY:
        return MachineStatus.READY
    if row.status == MachineStatus.PROVISIONING and row.pretends == FaultKind.ERROR_THEN_READY:
        return MachineStatus.ERROR
    return row.status


def older_shape(machine: dict[str, object]) -> dict[str, object]:
    """A machine as the vendor wrote it in March 2026. Source: published SDK 2026.3.6."""
    ssh, urls = machine["ssh"], machine["urls"]
    older = {**machine, "ssh": ssh["command"] if isinstance(ssh, dict) else ssh}
    older["urls"] = {name: urls[name] for name in ("vscode", "pty")} if isinstance(urls, dict) else urls
    del older["health"], older["source"]
    return older


def machine_to_wire(row: MachineRow, address: IPv4Address | None, port: int) -> dict[str, object]:
    """A machine in the vendor's JSON.

    Args:
        address: Its own address; ``None`` before the driver has given it one.
        port: The API's port, which serves the proxy's names as well.

    Source:
        Published SDK 2026.3.6, and a public client of April 2026 for what that schema lacks.
    """
    ip = str(address) if address else None
    host = f"{row.slug}.localhost:{port}"
    status = shown_status(row)
    command = f"ssh -i ~/.ssh/{row.slug} root@{ip}"
    return {
        "id": row.id,
        "slug": row.slug,
        "name": row.name,
        "status": status,
        "provisioning_stage": row.stage,
        "provisioning_stage_updated_at": row.stage_at or row.created_at,
        "provider": PROVIDER,
        "source": "user",
        "image_id": row.image_id,
        "server_type": row.server_type,
        "region": row.region,
        "ip": ip,
        "price_monthly": SERVER_TYPES[row.server_type].price_with(backups=row.backups),
        "backups_enabled": row.backups,
        "created_at": row.created_at,
        "ready_at": row.ready_at or (row.created_at if status == MachineStatus.READY else None),
        "urls": {
            "vscode": f"http://{host}/_vscode",
            "pty": f"http://{host}/_terminal",
            "terminal": f"http://{host}/_terminal",
            "proxy": f"http://{host}",
            "port_template": f"http://{{port}}--{host}",
        },
        "ssh": {"command": command, "setup_command": f"install -m 600 /dev/stdin ~/.ssh/{row.slug}"},
        "ssh_key": {
            "private_key": row.private_key,
            "public_key": row.public_key,
            "setup_command": f"install -m 600 /dev/stdin ~/.ssh/{row.slug}",
            "key_path": f"~/.ssh/{row.slug}",
        },
        "connect": {"ssh_command": command, "vscode_url": f"http://{host}/_vscode"},
        "health": {"services": {"justavps-daemon": row.status == MachineStatus.READY}},
    }


def backup_to_wire(row: BackupRow) -> dict[str, object]:
    """A backup in the vendor's JSON; its status stays ``creating`` for a while after the copy is complete."""
    early = row.copied_at and row.copied_at > now(plus_s=-_SAID_CREATING_S)
    return {
        "id": row.id,
        "description": row.description,
        "created": row.created_at,
        "size": row.bytes_used,
        "status": BackupStatus.CREATING if early else row.status,
    }


def image_to_wire(row: ImageRow) -> dict[str, object]:
    """An image in the vendor's JSON."""
    return {
        "id": row.id,
        "name": row.name,
        "status": row.status,
        "source_machine_id": row.source_machine_id,
        "provider": PROVIDER,
        "provider_image_id": row.provider_image_id,
        "disk_size_gb": row.disk_size_gb,
        "architecture": "x86",
        "description": row.description or None,
        "is_template": False,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }
