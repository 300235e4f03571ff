"""Whose certificate restic accepts of an object store, on this computer."""

from pathlib import Path

import pytest

from hermesops.agents.backup.store.repository import Bucket, Repository
from hermesops.agents.backup.store.restic import Restic
from hermesops.model.recovery.backup import Credential

BUCKET = Bucket("backups", "us-east-1", "https://127.0.0.1:1", "https://127.0.0.1:2", "PEM")


async def credential() -> Credential:
    return Credential("key", "secret")


@pytest.mark.parametrize("name", ["", "authorities.crt"])
async def test_restic_trusts_the_authority_that_the_settings_name(tmp_path: Path, name: str) -> None:
    program = tmp_path / "restic"
    program.write_text(f"#!/bin/sh\necho \"$@\" >{tmp_path}/words\necho '[]'\n")
    program.chmod(0o755)
    ca_file = tmp_path / name if name else None
    restic = Restic({"PATH": f"{tmp_path}:/usr/bin:/bin"}, credential, ca_file=ca_file)
    assert await restic.snapshots(Repository(BUCKET, "local/ada"), "password") == []
    words = (tmp_path / "words").read_text()
    assert (f"--cacert {tmp_path}/authorities.crt" in words) is bool(name)
