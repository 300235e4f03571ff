"""What somebody does at the vendor without telling us."""

import json
from pathlib import Path

import httpx


async def resize_behind_its_back(folder: Path, machine_id: str) -> None:
    """Let a machine of the world in that folder be rented larger than it was ordered."""
    facts = json.loads((folder / "world.json").read_text())
    headers = {"Authorization": f"Bearer {(folder / 'api.key').read_text().strip()}"}
    async with httpx.AsyncClient(headers=headers, trust_env=False) as vendor:
        url = f"{facts['api_url']}/api/v1/machines/{machine_id}/resize"
        resized = await vendor.post(url, json={"server_type": "basic"})
    assert resized.status_code == 202, resized.text
