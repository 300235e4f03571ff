"""The key of the database's backups: made once for an environment, and a copy of what a host made before."""

from typing import Any

from hermesops.model.ids import MachineId
from hermesops.platform.host import CertificatePairs, HostAddress
from hermesops.platform.parts.database import DatabasePart
from hermesops.vendor.channel import Completed
from tests.support.fakes.parts import part

AT = HostAddress("hermes-local-platform", MachineId("m-1"), "10.213.0.1")
HOSTS_OWN = "k" * 64


async def told(held: str, kept: dict[str, str]) -> object:
    """Key that the role is told where the host holds one, and the environment keeps another or none."""

    async def run(_: str, **__: object) -> Completed:
        return Completed(0 if held else 1, held.encode(), b"")

    channel: Any = part(run=run)
    database_part = DatabasePart("local", "postgresql", [], lambda new: kept.setdefault("database.key", new))
    variables = await database_part.variables(AT, CertificatePairs(channel, part(), "local"))
    return variables["cipher_key"]


async def test_a_key_is_made_once_and_kept() -> None:
    kept = dict[str, str]()
    first = await told("", kept)
    assert kept == {"database.key": first}
    assert len(str(first)) >= 64
    assert await told(f"{first}\n", kept) == first


async def test_a_host_that_made_its_own_keeps_it_and_the_environment_gets_a_copy() -> None:
    kept = dict[str, str]()
    assert await told(f"{HOSTS_OWN}\n", kept) == HOSTS_OWN
    assert kept == {"database.key": HOSTS_OWN}


async def test_the_environments_key_counts_on_a_fresh_host_and_what_is_no_key_is_not_copied() -> None:
    kept = {"database.key": "e" * 64}
    assert await told("", kept) == "e" * 64
    kept.clear()
    result = await told("k" * 64 + "\nanother line", kept)
    assert result != HOSTS_OWN
    assert kept == {"database.key": result}
