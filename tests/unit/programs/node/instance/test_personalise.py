"""Personalising a machine in a folder: everything but the gateway itself."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from hermesops.programs.node.instance import certificate, personalise
from hermesops.programs.node.instance.status import status
from hermesops.programs.node.machine import Machine as NodeMachine
from hermesops.programs.node.release.slots.disk import DiskSlots
from hermesops.programs.node.system import files, openssl
from hermesops.wire.errors import BadRequestError, NotReadyError, OutrankedError, RefusedError, UnhealthyError
from hermesops.wire.layout import Layout
from hermesops.wire.protocol import FencingToken, Identity, Payload, Secrets
from hermesops.wire.settings import Settings
from tests.support.crash.death import Death, KilledError, Mortal
from tests.support.fakes.credentials import authority_in, credential_of
from tests.support.fakes.machines.node_home import bare
from tests.support.fakes.machines.node_system import FakeSystem

if TYPE_CHECKING:
    from hermesops.programs.node.ports import Files

_PAYLOAD = Payload(
    Identity("i-1", "u-1", "light", "c1", 3),
    Secrets("k" * 64, "hm1.i-1.1." + "a" * 40),
    "http://10.0.0.1:18080/v1",
    Settings(personality="Terse.", cron=({"cron": "0 9 * * *", "prompt": "Good morning", "enabled": False},)),
)


@dataclass
class Machine:
    layout: Layout
    gateway: FakeSystem

    @property
    def node(self) -> NodeMachine:
        return NodeMachine(self.layout, system=self.gateway, slots=DiskSlots(self.layout))

    def upload(self, payload: Payload | bytes) -> Path:
        path = self.layout.root / "run/payload.json"
        path.touch(0o600)
        path.write_bytes(payload if isinstance(payload, bytes) else payload.to_json())
        return path

    def personalise(self, payload: Payload, *, replace_instance: str = "") -> personalise.Outcome:
        return personalise.personalise(self.node, self.upload(payload), wait_s=1, replace_instance=replace_instance)

    @property
    def home(self) -> Path:
        return self.layout.root / "var/lib/hermes"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return _made(tmp_path)


def _made(root: Path) -> Machine:
    return Machine(bare(root), FakeSystem())


def test_a_machine_becomes_a_users(machine: Machine) -> None:
    outcome = machine.personalise(_PAYLOAD)
    assert outcome.gateway == "started"
    assert outcome.healthy
    assert json.loads(machine.layout.identity.read_text())["instance"] == "i-1"
    assert (machine.home / "SOUL.md").read_text() == "Terse."
    assert (machine.home / "config.yaml").read_text() == "_config_version: 33\n"
    assert machine.layout.managed.joinpath(".env").stat().st_mode & 0o777 == 0o640
    assert machine.layout.identity.stat().st_mode & 0o777 == 0o600
    assert not (machine.layout.root / "run/payload.json").exists()


def test_the_same_again_changes_nothing(machine: Machine) -> None:
    machine.personalise(_PAYLOAD)
    outcome = machine.personalise(_PAYLOAD)
    assert outcome.changed == []
    assert outcome.gateway == "left alone"
    assert outcome.cron_jobs_made == 0


def _without_key(machine: Machine) -> None:
    path = machine.layout.managed / ".env"
    path.write_text("\n".join(line for line in path.read_text().splitlines() if "API_SERVER_KEY" not in line) + "\n")


@pytest.mark.parametrize(
    ("lose", "changed", "gateway"),
    [
        (lambda machine: (machine.layout.managed / ".env").unlink(), ".env", "restarted"),
        (lambda machine: (machine.layout.managed / ".env").chmod(0o644), ".env", "left alone"),
        (_without_key, ".env", "restarted"),
        (lambda machine: (machine.layout.managed / "config.yaml").unlink(), "config.yaml", "restarted"),
    ],
    ids=["gone", "readable by all", "without its key", "configuration"],
)
def test_a_machine_that_lost_what_it_was_handed_says_so_and_is_handed_it_again(
    machine: Machine, lose: Callable[[Machine], None], changed: str, gateway: str
) -> None:
    machine.personalise(_PAYLOAD)
    held = hashlib.sha256(_PAYLOAD.to_json()).hexdigest()
    assert status(machine.node)["payload"] == held
    lose(machine)
    assert status(machine.node)["payload"] is None
    outcome = machine.personalise(_PAYLOAD)
    assert str(machine.layout.managed / changed) in outcome.changed
    assert outcome.gateway == gateway
    assert status(machine.node)["payload"] == held


def test_what_a_release_brings_is_not_part_of_what_a_machine_was_handed(machine: Machine) -> None:
    machine.personalise(_PAYLOAD)
    base = json.loads(machine.layout.base.read_text())
    machine.layout.base.write_text(json.dumps({**base, "environment": {"NEW": "1"}, "config": {"new": True}}))
    assert status(machine.node)["payload"] is not None


def test_a_job_is_made_once_and_paused_when_it_is_not_enabled(machine: Machine) -> None:
    machine.personalise(_PAYLOAD)
    machine.layout.applied.write_text(json.dumps({"instance": "i-1"}))  # killed before it could note the job
    machine.personalise(_PAYLOAD)
    assert [(job["prompt"], job["enabled"]) for job in machine.gateway.jobs] == [("Good morning", False)]


def test_a_changed_setting_restarts_the_gateway(machine: Machine) -> None:
    machine.personalise(_PAYLOAD)
    outcome = machine.personalise(replace(_PAYLOAD, settings=Settings(disabled_tools=("browser",))))
    assert outcome.gateway == "restarted"
    assert outcome.changed == [
        str(machine.layout.managed / "config.yaml"),
        str(machine.layout.payload),
        "gateway",
    ]


def test_a_run_killed_before_the_restart_is_finished_by_the_next(machine: Machine) -> None:
    machine.personalise(_PAYLOAD)
    wanted = replace(_PAYLOAD, settings=Settings(disabled_tools=("browser",)))

    machine.gateway.killed_at = "stop"
    with pytest.raises(KilledError):
        machine.personalise(wanted)
    machine.gateway.killed_at = ""
    outcome = machine.personalise(wanted)
    assert outcome.changed == ["gateway"]
    assert outcome.gateway == "restarted"


def test_jobs_that_the_agent_was_not_given_are_counted(machine: Machine) -> None:
    machine.personalise(_PAYLOAD)
    assert status(machine.node)["jobs_missing"] == 0
    machine.layout.applied.write_text(json.dumps({"instance": "i-1"}))  # killed before the first job
    assert status(machine.node)["jobs_missing"] == 1


def test_the_users_own_files_stay_theirs(machine: Machine) -> None:
    machine.personalise(_PAYLOAD)
    (machine.home / "SOUL.md").write_text("Mine.")
    (machine.home / "config.yaml").write_text("mine: true\n")
    machine.personalise(_PAYLOAD)
    assert (machine.home / "SOUL.md").read_text() == "Mine."
    assert (machine.home / "config.yaml").read_text() == "mine: true\n"


def test_another_personality_replaces_the_first(machine: Machine) -> None:
    machine.personalise(_PAYLOAD)
    machine.personalise(replace(_PAYLOAD, settings=Settings(personality="Chatty.")))
    assert (machine.home / "SOUL.md").read_text() == "Chatty."


def test_a_link_planted_by_the_agent_is_not_followed(machine: Machine) -> None:
    precious = machine.layout.root / "etc/shadow"
    precious.write_text("precious")
    (machine.home / "SOUL.md").symlink_to(precious)
    machine.personalise(_PAYLOAD)
    assert precious.read_text() == "precious"


def test_an_older_epoch_is_refused(machine: Machine) -> None:
    machine.personalise(_PAYLOAD)
    with pytest.raises(RefusedError, match="epoch 2"):
        machine.personalise(replace(_PAYLOAD, identity=replace(_PAYLOAD.identity, epoch=2)))


def test_another_instance_is_refused_unless_told(machine: Machine) -> None:
    machine.personalise(_PAYLOAD)
    other = replace(_PAYLOAD, identity=replace(_PAYLOAD.identity, instance="i-2", epoch=0))
    with pytest.raises(RefusedError, match="i-1"):
        machine.personalise(other)
    machine.personalise(other, replace_instance="i-1")
    assert json.loads(machine.layout.identity.read_text())["instance"] == "i-2"


def test_a_refused_payload_touches_nothing_and_is_gone(machine: Machine) -> None:
    machine.personalise(_PAYLOAD)
    held = {path: path.read_bytes() for path in machine.layout.root.rglob("*") if path.is_file()}
    wrong = replace(_PAYLOAD, settings=Settings(model="gpt-9"))
    with pytest.raises(BadRequestError, match="no route 'gpt-9'"):
        machine.personalise(wrong)
    assert {path: path.read_bytes() for path in machine.layout.root.rglob("*") if path.is_file()} == held


def test_a_marker_left_by_a_drained_gateway_is_removed_before_a_start(machine: Machine) -> None:
    marker = machine.home / ".drain_request.json"
    marker.write_text("{}")
    machine.personalise(_PAYLOAD)
    assert not marker.exists()


def test_a_sick_gateway_is_an_error_and_the_machine_is_kept(machine: Machine) -> None:
    machine.gateway.is_well = False
    with pytest.raises(UnhealthyError, match="is not healthy after"):
        machine.personalise(_PAYLOAD)
    assert machine.layout.identity.exists()


def test_a_machine_without_roles_is_said_to_be_so(machine: Machine) -> None:
    machine.layout.base.unlink()
    with pytest.raises(NotReadyError, match="hermes_gateway"):
        machine.personalise(_PAYLOAD)


def test_killed_at_any_write_a_machine_with_an_identity_has_the_payload_that_belongs_to_it(tmp_path: Path) -> None:
    """The gateway's unit starts where there is an identity."""
    whole, death = 0, Death()
    for at in range(1, 20):
        machine, death = _made(tmp_path / str(at)), Death.after(at)
        mortal = cast("Files", Mortal(files, death, {"write_if_changed"}))
        with suppress(KilledError):
            personalise.personalise(replace(machine.node, files=mortal), machine.upload(_PAYLOAD), wait_s=0)
        if machine.layout.identity.exists():
            whole += 1
            assert (machine.layout.payload.exists(), machine.layout.applied.exists()) == (True, True)
            assert personalise.stored_payload(machine.node).identity == _PAYLOAD.identity
    assert 1 < whole < 19
    assert death.steps < at, "every write had its turn"


def test_configuring_nobodys_machine_is_refused(machine: Machine) -> None:
    with pytest.raises(NotReadyError, match="no instance yet"):
        personalise.configure(machine.node, wait_s=1)


def test_configuring_applies_a_new_base_configuration(machine: Machine) -> None:
    machine.personalise(_PAYLOAD)
    base = json.loads(machine.layout.base.read_text())
    machine.layout.base.write_text(json.dumps({**base, "config": {"approvals": {"mode": "manual"}}}))
    outcome = personalise.configure(machine.node, wait_s=1)
    assert outcome.changed == [str(machine.layout.managed / "config.yaml"), "gateway"]


def test_who_was_outranked_changes_nothing(machine: Machine) -> None:
    newer, older = FencingToken("instance/i-1", 1, 2, "b:2:b"), FencingToken("instance/i-1", 1, 1, "a:1:a")
    personalise.personalise(machine.node, machine.upload(_PAYLOAD), wait_s=1, lease=newer)
    before = {path: path.read_bytes() for path in machine.layout.root.rglob("*") if path.is_file()}
    other = replace(_PAYLOAD, settings=Settings(personality="Chatty."))
    with pytest.raises(OutrankedError, match="b:2:b"):
        personalise.personalise(machine.node, machine.upload(other), wait_s=1, lease=older)
    with pytest.raises(OutrankedError, match="b:2:b"):
        personalise.configure(machine.node, wait_s=1, lease=older)
    assert {path: path.read_bytes() for path in machine.layout.root.rglob("*") if path.is_file()} == before


def test_a_payload_brings_the_machines_certificate_and_its_digest_stays_the_same(
    machine: Machine, tmp_path: Path
) -> None:
    node = machine.node
    request = certificate.request(node)["request"]
    credential = credential_of(authority_in(tmp_path), request)
    assert Payload.from_json(replace(_PAYLOAD, credential=credential).to_json()).credential == credential
    machine.personalise(replace(_PAYLOAD, credential=credential))
    assert certificate.show(node)["serial"] == credential.serial
    assert machine.layout.payload.read_bytes() == _PAYLOAD.to_json()
    outcome = machine.personalise(replace(_PAYLOAD, credential=credential_of(authority_in(tmp_path), request)))
    assert (outcome.changed, outcome.gateway) == ([], "left alone")


def test_a_payload_with_another_machines_certificate_changes_nothing(machine: Machine, tmp_path: Path) -> None:
    other = openssl.request(openssl.make()).decode()
    certificate.request(machine.node)
    with pytest.raises(RefusedError, match="does not fit this machine's key"):
        machine.personalise(replace(_PAYLOAD, credential=credential_of(authority_in(tmp_path), other)))
    assert not machine.layout.identity.exists()
