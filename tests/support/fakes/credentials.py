"""An authority in memory, and what it gives machines, for tests of who proves what."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hermesops.access.pki.authority import Authority, fresh_key
from hermesops.model.access.certificate import MachineNames
from hermesops.model.ids import MachineId
from hermesops.wire.protocol import Credential
from tests.support.fakes.registry import FakeRegistry

NAMES = MachineNames("local", MachineId("m-1"))
LIFE = timedelta(days=7)


class Roots(FakeRegistry):
    """Roots in memory."""

    def __init__(self) -> None:
        self.held: list[str] = []

    def certificates_list_authorities(self) -> Sequence[str]:
        return self.held

    def certificates_trust_authority(self, certificate: str, *, only_first: bool) -> bool:
        if not (self.held and only_first):
            self.held.append(certificate)
        return certificate in self.held


def authority_in(folder: Path, *, environment: str = "local") -> Authority:
    """One of its own."""
    file = folder / f"{environment}.key"
    if not file.exists():
        file.write_text(fresh_key())
    return Authority.load(file.read_text(), Roots(), environment=environment, source=str(file))


def credential_of(
    authority: Authority,
    request: str,
    names: MachineNames = NAMES,
    *,
    url: str = "https://10.0.0.1:18082",
    now: datetime | None = None,
    life: timedelta = LIFE,
) -> Credential:
    """What a machine that asked so would be handed."""
    credential = authority.issue(request, names, now=now or datetime.now(UTC), life=life)
    return Credential(
        credential.pem,
        authority.certificate,
        url,
        credential.serial,
        int(credential.not_before.timestamp()),
        int(credential.not_after.timestamp()),
        names.uris,
    )
