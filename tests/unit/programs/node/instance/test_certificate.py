"""The machine's key and certificate on a machine in a folder, with openssl and with the simulated machines' twin."""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermesops.access.pki.authority import Authority
from hermesops.localcloud.drivers.sim.node.system import SimKeys
from hermesops.model.access.certificate import MachineNames
from hermesops.model.ids import CellName, InstanceId, MachineId
from hermesops.programs.node.instance import certificate
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.ports import Keys
from hermesops.programs.node.release.slots.disk import DiskSlots
from hermesops.programs.node.system import openssl
from hermesops.wire.errors import BadRequestError, NotReadyError, OutrankedError, RefusedError
from hermesops.wire.layout import Layout
from hermesops.wire.protocol import Credential, FencingToken
from tests.support.fakes.credentials import LIFE, NAMES, authority_in, credential_of
from tests.support.fakes.machines.node_system import FakeSystem

BORN = datetime.fromtimestamp(1_800_000_000, UTC)
"""Where the machine's clock begins."""


@dataclass
class FakePlatform:
    """The platform's service: signs what it is asked for."""

    authority: Authority
    names: MachineNames = NAMES
    asked: list[str] = field(default_factory=list)
    standing: bool = True
    now: datetime = BORN

    def __call__(self, credential: Credential, key: bytes, method: str, path: str, body: bytes = b"") -> bytes:
        assert credential.certificate
        assert key
        self.asked.append(f"{method} {path}")
        if path == "/v1/standing":
            if not self.standing:
                raise RefusedError("this certificate is not known")
            return b"{}"
        return credential_of(self.authority, body.decode(), self.names, now=self.now).to_json()


@pytest.fixture(params=[openssl, SimKeys()], ids=["openssl", "simulated"])
def keys(request: pytest.FixtureRequest) -> Keys:
    keys: Keys = request.param
    return keys


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return authority_in(tmp_path)


@pytest.fixture
def machine(tmp_path: Path, keys: Keys, authority: Authority) -> Machine:
    for folder in ("etc/hermes-node", "run/hermes-node"):
        (tmp_path / folder).mkdir(parents=True)
    layout, platform = Layout(tmp_path), FakePlatform(authority)
    return Machine(layout, system=FakeSystem(), keys=keys, ask_platform=platform, slots=DiskSlots(layout))


def upload(machine: Machine, credential: Credential) -> Path:
    path = machine.layout.root / "run/hermes-node/credential.json"
    path.touch(0o600)
    path.write_bytes(credential.to_json())
    return path


def given(machine: Machine, authority: Authority, names: MachineNames = NAMES) -> Credential:
    request = certificate.request(machine)["request"]
    credential = credential_of(authority, request, names, now=BORN)
    certificate.install(machine, upload(machine, credential))
    return credential


def test_the_key_is_made_once_and_is_roots_alone(machine: Machine) -> None:
    first = certificate.request(machine)
    assert certificate.request(machine) == first
    assert machine.layout.machine_key.stat().st_mode & 0o777 == 0o600
    assert "PRIVATE" not in json.dumps(first)
    assert first["serial"] is None


def test_another_key_takes_the_certificate_of_the_old_one_with_it(machine: Machine, authority: Authority) -> None:
    given(machine, authority)
    before = certificate.show(machine)
    after = certificate.request(machine, anew=True)
    assert after["request"] != before["request"]
    assert after["serial"] is None
    assert not machine.layout.machine_certificate.exists()


def test_a_request_that_was_cut_short_is_made_again_of_the_key_that_is_there(machine: Machine) -> None:
    certificate.request(machine)
    key = machine.layout.machine_key.read_bytes()
    machine.layout.machine_request.unlink()
    assert certificate.show(machine)["request"] == ""
    assert certificate.request(machine)["request"]
    assert machine.layout.machine_key.read_bytes() == key


def test_the_agent_trusts_the_model_router_by_public_authorities_and_ours(
    machine: Machine, authority: Authority
) -> None:
    public = machine.layout.public_authorities
    public.parent.mkdir(parents=True)
    public.write_bytes(b"public ones\n")
    certificate.trust_router(machine)
    assert not machine.layout.router_authorities.exists()  # by hermes-agent's own, until ours are known
    ours = given(machine, authority).authority.encode().rstrip(b"\n")
    assert machine.layout.router_authorities.read_bytes() == ours + b"\npublic ones\n"
    assert machine.layout.router_authorities.stat().st_mode & 0o777 == 0o644
    public.unlink()
    certificate.trust_router(machine)
    assert machine.layout.router_authorities.read_bytes() == ours + b"\n"


def test_the_file_of_all_authorities_is_named_only_while_it_has_the_public_ones(
    machine: Machine, authority: Authority
) -> None:
    assert certificate.all_authorities(machine) == ""
    given(machine, authority)
    assert certificate.all_authorities(machine) == "", "without public ones the agent would reach nobody else"
    public = machine.layout.public_authorities
    public.parent.mkdir(parents=True)
    public.write_bytes(b"public ones\n")
    certificate.trust_router(machine)
    assert certificate.all_authorities(machine) == "/etc/hermes-router-authorities.crt"


def test_a_certificate_is_installed_and_told_of(machine: Machine, authority: Authority) -> None:
    names = MachineNames("local", MachineId("m-1"), CellName("cell1"), InstanceId("i-1"))
    credential = given(machine, authority, names)
    show = certificate.show(machine)
    assert (show["serial"], show["names"], show["expired"]) == (credential.serial, list(names.uris), False)
    assert show["url"] == "https://10.0.0.1:18082"
    assert not (machine.layout.root / "run/hermes-node/credential.json").exists()
    assert (
        Credential.from_pem(machine.layout.machine_certificate.read_bytes(), credential.authority.encode())
        == credential
    )
    machine.system.sleep(LIFE.total_seconds())
    assert certificate.show(machine)["expired"]


def test_another_machines_certificate_is_refused_and_the_old_one_stays(
    machine: Machine, authority: Authority, keys: Keys
) -> None:
    before = given(machine, authority)
    stranger = credential_of(authority, keys.request(keys.make()).decode())
    with pytest.raises(RefusedError, match="does not fit this machine's key"):
        certificate.install(machine, upload(machine, stranger))
    assert certificate.show(machine)["serial"] == before.serial


@pytest.mark.parametrize(
    "change",
    [
        {"certificate": "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"},
        {"url": "http://10.0.0.1"},
        {"names": ("hermesops://local/root/x",)},
        {"serial": "../x"},
        {"not_after": -1},
    ],
)
def test_what_is_no_certificate_is_not_taken(machine: Machine, authority: Authority, change: dict[str, object]) -> None:
    request = certificate.request(machine)["request"]
    with pytest.raises(BadRequestError, match="credential"):
        certificate.install(machine, upload(machine, replace(credential_of(authority, request), **change)))  # type: ignore[arg-type] # that is the point
    assert not machine.layout.machine_certificate.exists()


def test_a_damaged_certificate_is_none(machine: Machine, authority: Authority) -> None:
    given(machine, authority)
    machine.layout.machine_certificate.write_text("hermes-node: {")
    assert certificate.show(machine)["serial"] is None
    with pytest.raises(BadRequestError, match="its first line is damaged"):
        certificate.renew(machine)


def test_who_lost_the_lease_installs_nothing(machine: Machine, authority: Authority) -> None:
    newer, older = FencingToken("instance/i", 1, 2, "new"), FencingToken("instance/i", 1, 1, "old")
    request = certificate.request(machine, lease=newer)["request"]
    with pytest.raises(OutrankedError, match=r"the lease 1\.1 was taken over"):
        certificate.install(machine, upload(machine, credential_of(authority, request)), lease=older)
    with pytest.raises(OutrankedError, match=r"the lease 1\.1 was taken over"):
        certificate.request(machine, anew=True, lease=older)
    assert certificate.show(machine)["request"] == request


def test_it_is_renewed_when_two_thirds_of_its_life_are_over(machine: Machine, authority: Authority) -> None:
    platform = machine.ask_platform
    assert isinstance(platform, FakePlatform)
    assert certificate.renew(machine)["why"] == "there is none yet"
    before = given(machine, authority)
    machine.system.sleep(LIFE.total_seconds() * 0.66)
    assert certificate.renew(machine)["renewed"] is False
    assert platform.asked == []
    machine.system.sleep(LIFE.total_seconds() * 0.02)
    platform.now = BORN + timedelta(days=5)
    after = certificate.renew(machine)
    assert after["renewed"]
    assert after["serial"] == certificate.show(machine)["serial"] != before.serial
    assert platform.asked == ["POST /v1/certificate", "GET /v1/standing"]
    assert certificate.renew(machine)["renewed"] is False


def test_the_old_one_stays_where_the_fresh_one_does_not_work(machine: Machine, authority: Authority) -> None:
    before = given(machine, authority)
    platform = machine.ask_platform
    assert isinstance(platform, FakePlatform)
    machine.system.sleep(LIFE.total_seconds() * 0.7)
    platform.standing = False
    with pytest.raises(RefusedError, match="certificate is not known"):
        certificate.renew(machine)
    assert certificate.show(machine)["serial"] == before.serial
    platform.standing, platform.names = True, MachineNames("local", MachineId("m-2"))
    with pytest.raises(RefusedError, match="other names"):
        certificate.renew(machine)
    assert certificate.show(machine)["serial"] == before.serial


def test_one_that_hermesops_gave_meanwhile_is_not_replaced_by_a_renewed_one(
    machine: Machine, authority: Authority
) -> None:
    given(machine, authority)
    machine.system.sleep(LIFE.total_seconds() * 0.7)
    question = str(certificate.show(machine)["request"])
    newer = credential_of(authority, question, MachineNames("local", MachineId("m-1"), CellName("c"), InstanceId("i")))

    def slow(credential: Credential, key: bytes, method: str, path: str, body: bytes = b"") -> bytes:
        if path == "/v1/standing":
            certificate.install(machine, upload(machine, newer))
        return FakePlatform(authority)(credential, key, method, path, body)

    assert certificate.renew(replace(machine, ask_platform=slow))["why"] == "the certificate was replaced meanwhile"
    assert certificate.show(machine)["serial"] == newer.serial


def test_no_platform_is_said_and_changes_nothing(machine: Machine, authority: Authority) -> None:
    before = given(machine, authority)
    machine.system.sleep(LIFE.total_seconds() * 0.7)

    def silent(*_: object) -> bytes:
        raise NotReadyError("no answer")

    with pytest.raises(NotReadyError, match="no answer"):
        certificate.renew(replace(machine, ask_platform=silent))
    assert certificate.show(machine)["serial"] == before.serial
