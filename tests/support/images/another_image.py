"""An image that machines can boot beside the one that was built: made at the vendor, of an unassigned machine."""

import sqlite3
import uuid
from contextlib import closing
from datetime import UTC, datetime

from tests.support.real.commands.command import Command
from tests.support.vendor.outside_changes import told, vendor_of


async def make(command: Command, name: str, *, script: str = "") -> str:
    """Have such an image, written down as one that was built; its id. ``script`` changes the machine before."""
    async with vendor_of(command.home / "local" / "world") as api:
        [known, *_] = (await command.ok("image", "list", "--json")).json["images"]
        order = {"name": "pattern", "server_type": "starter", "region": "hel1", "image_id": known["id"]}
        machine = (await api.post("/machines", json=order)).raise_for_status().json()["id"]
        await told(api, f"/machines/{machine}")
        if script:
            ran = await api.post(f"/machines/{machine}/toolbox/process/execute", json={"command": script})
            assert ran.raise_for_status().json()["exit_code"] == 0, ran.text
        response = await api.post(f"/machines/{machine}/image", json={"name": name})
        image = str(response.raise_for_status().json()["id"])
        await told(api, f"/images/{image}")
        (await api.delete(f"/machines/{machine}")).raise_for_status()
    know(command, name, image)
    return image


def know(command: Command, name: str, image: str) -> None:
    """Write an image down as one that was built."""
    values = (image, name, uuid.uuid4().hex * 2, "{}", datetime.now(UTC).replace(tzinfo=None).isoformat(" "))
    with closing(sqlite3.connect(command.home / "local" / "registry.db")) as registry:
        registry.execute("INSERT INTO images (id, name, digest, manifest, created_at) VALUES (?, ?, ?, ?, ?)", values)
        registry.commit()
