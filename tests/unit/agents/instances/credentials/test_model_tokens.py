"""A running agent is handed its token without a restart; one that rests on purpose, or is another's, is not."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from hermesops.agents.instances.credentials.tokens import ModelTokenRevocation, ModelTokens
from hermesops.agents.instances.observation import Observation
from hermesops.errors import HermesError, RefusedError, UnavailableError
from hermesops.model.fleet.instance import Instance, InstanceStatus
from tests.support.fakes.instances import ADA, READY
from tests.support.fakes.parts import Leases, part

SUSPENDED = replace(ADA, status=InstanceStatus.SUSPENDED)


class Machine:
    """A machine as the client sees it."""

    def __init__(self, node: Any = None) -> None:  # noqa: ANN401 - stands for a NodeState
        self.node = node
        self.handed: list[str] = []
        self.connectors = True

    def without_connector(self) -> "Machine":
        self.connectors = False
        return self

    async def observe(self, _instance_id: str) -> Any:  # noqa: ANN401 - stands for an Observation
        return Observation(ADA, READY, self.node)

    async def personalise(self, instance: Instance, machine_id: str, _request: object) -> None:
        self.handed.append(f"{instance.title} on {machine_id}")


def node(**changes: object) -> Any:  # noqa: ANN401 - stands for a NodeState
    return part(**({"instance_id": ADA.id, "fenced": False, "takes_connector": True} | changes))


def tokens(machine: Machine, row: Instance = ADA) -> ModelTokens:
    registry = part(instances=part(get=lambda _: row), operations=part(list=lambda **_: ()))
    return ModelTokens(registry, part(with_lease=lambda _: machine), Leases().hold, timedelta(days=7), {})


async def test_a_running_agent_is_handed_its_token() -> None:
    machine = Machine(node())
    await tokens(machine).hand(ADA)
    assert (machine.handed, machine.connectors) == ([f"ada on {READY.id}"], True)


async def test_an_older_hermes_node_is_handed_the_token_without_the_connector_that_it_would_refuse() -> None:
    machine = Machine(node(takes_connector=False))
    await tokens(machine).hand(ADA)
    assert (machine.handed, machine.connectors) == ([f"ada on {READY.id}"], False)


@pytest.mark.parametrize(
    ("row", "state", "error", "words"),
    [
        (SUSPENDED, node(), RefusedError, "suspended"),
        (ADA, None, UnavailableError, "ada"),
        (ADA, node(instance_id="another"), HermesError, "another"),
        (ADA, node(fenced=True), RefusedError, "rests"),
    ],
)
async def test_no_other_agent_is_handed_one(row: Instance, state: object, error: type[HermesError], words: str) -> None:
    machine = Machine(state)
    with pytest.raises(error, match=words):
        await tokens(machine, row).hand(ADA)
    assert machine.handed == []


async def test_tokens_are_revoked_whether_or_not_the_agent_can_be_handed_another() -> None:
    calls: list[str] = []

    async def hand(instance: Instance) -> None:
        calls.append(instance.title)
        raise UnavailableError("its machine is away")

    registry = part(model_tokens=part(revoke=lambda _, **__: 3))
    revocation = ModelTokenRevocation(registry, hand)
    assert await revocation.revoke(ADA, reason="leak") == (3, "its machine is away")
    assert await revocation.revoke(SUSPENDED, reason="leak") == (3, "")
    assert calls == ["ada"]
