"""Releases for simulated machines, by the installed command: good ones, and ones with a fault."""

import json
from zlib import crc32

from tests.support.real.commands.command import Command


async def built(command: Command, note: str, fault: str = "") -> str:
    """Build a release that differs from all others by its note; its id.

    Args:
        command: Runs commands.
        note: What it is called.
        fault: What is wrong with gateways of it; by default nothing.
    """
    managed = command.home / f"{note}.json"
    managed.write_text(
        json.dumps(
            {"config": {}, "environment": {"HERMES_SIMULATED_FAULT": fault or f"queue:0:{crc32(note.encode())}"}}
        )
    )
    await command.ok("release", "build", "--managed", str(managed), "--note", note)
    releases = (await command.ok("release", "list", "--json")).json["releases"]
    return next(str(release["id"]) for release in releases if release["note"] == note)
