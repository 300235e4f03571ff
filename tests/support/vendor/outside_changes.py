"""What somebody does at the vendor without telling us."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from hermesops.base.waiting import Pending, until


async def resize_behind_its_back(folder: Path, machine_id: str) -> None:
    """Let a machine of the world in that folder be rented larger than it was ordered."""
    async with vendor_of(folder) as vendor:
        resized = await vendor.post(f"machines/{machine_id}/resize", json={"server_type": "basic"})
    assert resized.status_code == 202, resized.text


async def delete_behind_its_back(folder: Path, machine_id: str) -> None:
    """Let a machine of the world in that folder be gone."""
    async with vendor_of(folder) as vendor:
        deleted = await vendor.delete(f"machines/{machine_id}")
    assert deleted.status_code == 204, deleted.text


async def stop_behind_its_back(folder: Path, machine_id: str) -> None:
    """Let a machine of the world in that folder be switched off."""
    async with vendor_of(folder) as vendor:
        (await vendor.post(f"machines/{machine_id}/stop")).raise_for_status()
        await told(vendor, f"machines/{machine_id}", status="stopped")


async def told(vendor: httpx.AsyncClient, path: str, **wanted: str) -> Mapping[str, Any]:
    """What the vendor tells below that path, once it says what is wanted there; that it is ready, unless told else."""

    async def observe() -> Mapping[str, Any] | Pending[Mapping[str, Any]]:
        answer = await vendor.get(path)
        thing = answer.json() if answer.is_success else {}
        fits = {"status": "ready", **wanted}.items() <= thing.items()
        return thing if fits else Pending(f"{answer.status_code} {thing.get('status')}")

    return await until(observe, what=path, timeout_s=60, every_s=0.2)


def vendor_of(folder: Path, path: str = "/api/v1/") -> httpx.AsyncClient:
    """The API of the world in that folder, below that path."""
    facts = json.loads((folder / "world.json").read_text())
    headers = {"Authorization": f"Bearer {(folder / 'api.key').read_text().strip()}"}
    return httpx.AsyncClient(base_url=f"{facts['api_url']}{path}", headers=headers, trust_env=False, timeout=60)
