"""The console over agents and machines that somebody has taken over: pages come, and their texts are data."""

import asyncio
from pathlib import Path

import pytest

from tests.support.hostile.fleet import hostile_fleet
from tests.support.pages.console import OWN, console_client, container_of, foreign

MOODS = ("escapes", "root: escapes", "drips_body", "root: 20 MB")
WITHIN_S = 60.0
"""For a page that asks a machine: JustAVPS and the machine are waited for 20 seconds at most, then the vendor again."""


@pytest.mark.turns(60)
async def test_each_page_comes_and_shows_texts_of_hostile_machines_as_data(tmp_path: Path) -> None:
    async with hostile_fleet(tmp_path, good=1, bad=len(MOODS)) as fleet, fleet.in_moods(*MOODS):
        container = container_of(fleet.world.environ)
        await fleet.world.run("instance", "list", "--ask")
        async with console_client(container) as client:
            shown = {path: await client.get(path) for path in ("/console/", "/console/instances")}
            for user in (*fleet.good, *fleet.bad):
                path = f"/console/instances/{container.instances.find(user).id}"
                for part in ("", "/report", "/timeline", "/change/restart"):
                    async with asyncio.timeout(WITHIN_S):
                        shown[f"{path}{part}"] = await client.get(f"{path}{part}")
            assert {response.status_code for response in shown.values()} == {200}
            assert {path: foreign(page.text) for path, page in shown.items() if foreign(page.text)} == {}
            reports = {
                user: shown[f"/console/instances/{container.instances.find(user).id}/report"].text
                for user in (*fleet.good, *fleet.bad)
            }
            assert [user for user, text in reports.items() if "state healthy" in text] == list(fleet.good)
            assert all(user in shown["/console/"].text for user in fleet.bad)
            [good] = fleet.good
            path = f"/console/instances/{container.instances.find(good).id}/change/restart"
            response = await client.post(path, data={"reason": "a test"}, headers=OWN)
            assert response.headers["hx-redirect"].startswith("/console/operations/")
