"""Rows as the vendor writes them in JSON. Pure.

Every machine answer carries the machine's root private key in clear, lists too: that is the vendor's habit, and
whoever reads these answers must cope with it. The key opens nothing but the one throw-away machine.
"""

from ipaddress import IPv4Address

from hermesops.localcloud.catalog import PROVIDER, SERVER_TYPES
from hermesops.localcloud.rows import ImageRow, MachineRow, MachineStatus

EARLY = "ready-before-bootstrapped"
"""``MachineRow.pretends`` of a machine that is called ready before anything on it runs."""

LATE = "error-then-ready"
"""``MachineRow.pretends`` of a machine that is called broken until it turns out well."""


def shown_status(row: MachineRow) -> str:
    """The status the API tells, lies of a fault included."""
    if row.status == MachineStatus.PROVISIONING and row.pretends == EARLY:
        return MachineStatus.READY
    if row.status == MachineStatus.PROVISIONING and row.pretends == LATE:
        return MachineStatus.ERROR
    return row.status


def machine_to_wire(row: MachineRow, address: IPv4Address | None, port: int) -> dict[str, object]:
    """One machine.

    Args:
        row: What is remembered of it.
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
        "price_monthly": SERVER_TYPES[row.server_type].price_monthly,
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


def image_to_wire(row: ImageRow) -> dict[str, object]:
    """One image."""
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
