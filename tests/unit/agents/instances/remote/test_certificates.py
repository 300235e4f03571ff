"""A machine's certificate through the toolbox: what is asked for, what is given, and when it is due."""

import json
from dataclasses import dataclass, field, replace

import pytest

from hermesops.access.pki.certificates import Certificates
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.remote.certificates import Certifying
from hermesops.agents.instances.steps.personalise import AwaitGateway, Personalise, next_step
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.access.certificate import KeyTakenError, MachineNames
from hermesops.model.fleet.health import GatewayHealth, NodeState
from hermesops.model.ids import CellName, InstanceId, MachineId
from hermesops.model.operation import Refused
from hermesops.vendor.channel import Completed
from hermesops.wire.protocol import PROGRAM, Credential
from tests.support.fakes.instances import ADA, MACHINE, READY
from tests.support.suite.cases import each_case

NAMES = MachineNames("local", MACHINE, ADA.cell, ADA.id)
NODE = NodeState(ADA.id, ADA.epoch, "digest", "0.19.0")


def step(node: NodeState) -> Personalise | AwaitGateway | Refused | None:
    return next_step(Observation(ADA, READY, node, GatewayHealth.OK), READY, node, payload_digest="digest")


def test_a_machine_that_has_everything_is_left_alone() -> None:
    assert step(replace(NODE, request="asked", names=NAMES)) is None


def test_a_machine_that_knows_of_no_certificates_lives_without() -> None:
    assert step(NODE) is None
    assert step(replace(NODE, digest="other")) == Personalise(MACHINE, None)


@each_case(
    "names",
    [
        None,
        MachineNames("local", MACHINE),
        replace(NAMES, cell=CellName("cell9")),
        replace(NAMES, machine_id=MachineId("another")),
        replace(NAMES, instance_id=InstanceId("another")),
    ],
    ids=["none", "nobody's", "another cell", "another machine", "another instance"],
)
@each_case("request_", ["asked", ""], ids=["asks", "has no key yet"])
def test_a_machine_that_cannot_prove_whose_it_is_is_handed_over_again(
    names: MachineNames | None, request_: str
) -> None:
    assert step(replace(NODE, request=request_, names=names)) == Personalise(MACHINE, request_)


@dataclass
class Authority(Certificates):
    """Gives certificates.

    Attributes:
        taken: Requests with other machines' keys.
    """

    taken: tuple[str, ...] = ()
    issued: list[tuple[str, MachineId, CellName | None, InstanceId | None]] = field(default_factory=list)
    known: tuple[str, ...] = ()

    def issue(
        self,
        request: str,
        machine_id: MachineId,
        *,
        cell: CellName | None = None,
        instance_id: InstanceId | None = None,
    ) -> Credential:
        if request in self.taken:
            raise KeyTakenError("another machine's")
        self.issued.append((request, machine_id, cell, instance_id))
        return Credential("", "", "https://p", f"{len(self.issued)}", 0, 1, ())

    def is_known(self, serial: str) -> bool:
        return serial in self.known


@dataclass
class Machine:
    """A machine's toolbox.

    Attributes:
        answers: Exit code and answer of each of hermes-node's commands, by its beginning.
    """

    answers: dict[str, tuple[int, str]]
    ran: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    machine_id: str = "m1"

    async def run(self, command: str, **_options: object) -> Completed:
        words = command.removeprefix(f"{PROGRAM} ")
        self.ran.append(words)
        code, output = next(answer for begin, answer in self.answers.items() if words.startswith(begin))
        return Completed(code, output.encode(), b"" if code == 0 else output.encode())

    async def put(self, path: str, data: bytes, *, mode: int) -> None:
        assert mode == 0o600
        self.files[path] = data


def asks(request: str) -> tuple[int, str]:
    return 0, json.dumps({"request": request})


async def test_a_machine_is_certified_by_two_commands_and_a_file() -> None:
    authority = Authority()
    machine = Machine({"certificate request": asks("mine"), "certificate install": (0, "{}")})
    issued = await Certifying(authority).certify(machine, MACHINE, ADA)  # type: ignore[arg-type] # it needs no more of a channel
    assert authority.issued == [("mine", MACHINE, ADA.cell, ADA.id)]
    [(path, data)] = machine.files.items()
    assert issued is not None
    assert data == issued.to_json()
    assert machine.ran == ["certificate request", f"certificate install {path}"]


async def test_a_machine_with_a_copied_disk_makes_a_key_of_its_own() -> None:
    authority = Authority(taken=("copied",))
    machine = Machine(
        {
            "certificate request --new": asks("own"),
            "certificate request": asks("copied"),
            "certificate install": (0, "{}"),
        }
    )
    await Certifying(authority).certify(machine, MACHINE)  # type: ignore[arg-type] # as above
    assert [request for request, *_ in authority.issued] == ["own"]


async def test_a_request_that_is_at_hand_costs_no_command() -> None:
    machine = Machine({})
    await Certifying(Authority()).credential(machine, MACHINE, "seen")  # type: ignore[arg-type] # as above
    assert machine.ran == []


async def test_an_older_hermes_node_is_left_as_it_is() -> None:
    machine = Machine({"certificate": (2, "invalid choice: 'certificate'")})
    assert await Certifying(Authority()).certify(machine, MACHINE) is None  # type: ignore[arg-type] # as above


@pytest.mark.parametrize(("code", "error"), [(3, RefusedError), (4, UnavailableError)])
async def test_what_a_machine_says_against_it_is_repeated(code: int, error: type[Exception]) -> None:
    machine = Machine({"certificate request": asks("mine"), "certificate install": (code, "hermes-node: no room")})
    with pytest.raises(error, match="no room"):
        await Certifying(Authority()).certify(machine, MACHINE)  # type: ignore[arg-type] # as above


@pytest.mark.parametrize(
    ("identity", "names"),
    [
        ({"serial": "a", "expired": False, "names": list(NAMES.uris)}, NAMES),
        ({"serial": "a", "expired": True, "names": list(NAMES.uris)}, None),
        ({"serial": "b", "expired": False, "names": list(NAMES.uris)}, None),
        ({"serial": None, "names": []}, None),
    ],
    ids=["good", "run out", "of a lost registry", "none"],
)
def test_only_a_certificate_that_was_issued_here_and_has_not_run_out_is_one(
    identity: dict[str, object], names: MachineNames | None
) -> None:
    assert Certifying(Authority(known=("a",))).names(identity) == names
