"""Keys and certificates of the users' processes as files: issued once, and again where they do not count any more."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermesops.access.pki.authority import Authority, fresh_key
from hermesops.access.pki.callers import Callers
from hermesops.agents.relay.credential import CallerPem
from hermesops.agents.relay.routes import API
from hermesops.errors import RefusedError, UsageError
from hermesops.platform.parts.user_credentials import IssuedFiles, UserCredentials
from hermesops.store.registry import Registry
from tests.support.fakes.credentials import authority_in
from tests.support.real.stores.registries import TurnedClock, registry_at

LIFE = timedelta(days=7)
WHY = "test"
RELAY = ("relay-1.pem", "relay-2.pem")


@dataclass
class Host:
    """A host's folder, and the environment whose keys it gets."""

    folder: Path
    registry: Registry
    authority: Authority
    clock: TurnedClock
    keys: dict[str, str] = field(
        default_factory=lambda: {"messages.key": "ring", "billing.secret": "", "connections.key": "ak_1"}
    )

    async def issue(self, *, why: str = WHY, has_connector: bool = False) -> IssuedFiles:
        callers = Callers(self.registry, lambda: self.authority, environment="staging", life=LIFE)
        credentials = UserCredentials(lambda: self.keys, lambda: callers, self.authorities, has_connector)
        return await credentials.issue(self.folder, why=why)

    def authorities(self) -> str:
        return "".join(self.registry.certificates.list_authorities())

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()


@pytest.fixture
def host(tmp_path: Path, clock: TurnedClock) -> Host:
    clock.timestamp = datetime.now(UTC)
    registry = registry_at(f"sqlite:///{tmp_path}/r.db", clock=clock)
    authority = Authority.load(fresh_key(), registry, environment="staging", source="test")
    return Host(tmp_path / "of-users", registry, authority, clock)


async def test_each_process_gets_a_certificate_and_the_second_run_changes_nothing(host: Host) -> None:
    first = await host.issue()

    assert first.changed == ("billing.secret", "connections.key", "messages.key", *RELAY)
    assert first.missing == ("billing.secret",)
    assert host.text("messages.key") == "ring"
    certificates = {CallerPem.parse(host.text(name), name).certificate for name in RELAY}
    assert len(certificates) == 2
    assert (await host.issue()).changed == ()
    assert [caller.why for caller in host.registry.relay_callers.list()] == [WHY, WHY]


async def test_the_connector_is_another_caller_and_the_apis_processes_keep_theirs(host: Host) -> None:
    await host.issue()
    assert (await host.issue(has_connector=True)).changed == ("relay-connector.pem",)
    assert (await host.issue(has_connector=True)).changed == ()
    assert sorted(caller.name for caller in host.registry.relay_callers.list()) == ["api", "api", "connector"]


async def test_files_are_for_their_owner_alone(host: Host) -> None:
    await host.issue()

    assert host.folder.stat().st_mode & 0o077 == 0
    assert [file.name for file in host.folder.iterdir() if file.stat().st_mode & 0o077] == []
    host.folder.chmod(0o750)
    with pytest.raises(RefusedError, match="others may read the folder"):
        await host.issue()


async def test_a_key_that_changed_is_written_and_certificates_stay(host: Host) -> None:
    await host.issue()
    host.keys |= {"messages.key": "ring with one more", "billing.secret": "whsec_1"}

    assert (await host.issue()).changed == ("billing.secret", "messages.key")
    assert host.text("billing.secret") == "whsec_1"


async def test_certificates_that_were_revoked_or_ended_are_replaced(host: Host) -> None:
    await host.issue()
    host.registry.relay_callers.revoke(API, why="test")
    assert (await host.issue()).changed == RELAY
    host.clock.timestamp += LIFE + timedelta(minutes=1)
    assert (await host.issue()).changed == RELAY
    assert (await host.issue()).changed == ()


async def test_another_authority_to_trust_is_another_certificate(host: Host, tmp_path: Path) -> None:
    await host.issue()
    host.registry.certificates.trust_authority(authority_in(tmp_path, environment="next").certificate)

    assert (await host.issue()).changed == RELAY


@pytest.mark.parametrize("damage", ["", "x", "key without certificate"])
async def test_a_damaged_file_is_replaced(host: Host, damage: str) -> None:
    await host.issue()
    text = host.text("relay-2.pem")
    key = text[: text.index("-----BEGIN CERTIFICATE")]
    other = host.text("relay-1.pem").partition("-----BEGIN CERTIFICATE")[0]
    damaged = {"": "", "x": "x", "key without certificate": text.replace(key, other)}[damage]
    (host.folder / "relay-2.pem").write_text(damaged)

    assert (await host.issue()).changed == ("relay-2.pem",)
    assert CallerPem.parse(host.text("relay-2.pem"), "").context()


async def test_nothing_is_issued_without_a_reason(host: Host) -> None:
    with pytest.raises(UsageError, match="why"):
        await host.issue(why="")
    assert not host.folder.exists()
    assert host.registry.relay_callers.list() == ()
