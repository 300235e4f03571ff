"""What somebody does at the vendor without telling us."""

import json
from pathlib import Path

import httpx


async def resize_behind_its_back(folder: Path, machine_id: str) -> None:
    """Let a machine of the world in that folder be rented larger than it was ordered."""
    async with _vendor(folder) as vendor:
        resized = await vendor.post(f"machines/{machine_id}/resize", json={"server_type": "basic"})
    assert resized.status_code == 202, resized.text


async def delete_behind_its_back(folder: Path, machine_id: str) -> None:
    """Let a machine of the world in that folder be gone."""
    async with _vendor(folder) as vendor:
        deleted = await vendor.delete(f"machines/{machine_id}")
    assert deleted.status_code == 204, deleted.text


def _vendor(folder: Path) -> httpx.AsyncClient:
    facts = json.loads((folder / "world.json").read_text())
    headers = {"Authorization": f"Bearer {(folder / 'api.key').read_text().strip()}"}
    return httpx.AsyncClient(base_url=f"{facts['api_url']}/api/v1/", headers=headers, trust_env=False)
