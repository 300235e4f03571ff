"""A gateway is restarted once, and the restart has ended when another start of it is well."""

from dataclasses import replace

import pytest

from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.steps.personalise import AwaitGateway
from hermesops.agents.instances.workflows.restart import RestartGateway, RestartState, decide
from hermesops.errors import HermesError, RefusedError, UnavailableError
from hermesops.model.fleet.health import GatewayHealth, NodeState
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.operation import Done, Refused
from tests.support.fakes.instances import ADA, MACHINE, READY
from tests.support.suite.cases import each_case

WELL = Observation(ADA, READY, NodeState(ADA.id, 1, "digest", "0.19.0"), GatewayHealth.OK)
ILL = replace(WELL, gateway=GatewayHealth.REFUSED)


@each_case(
    ("restart_state", "before", "step"),
    [
        (RestartState(WELL, "start-1"), "start-1", RestartGateway(MACHINE)),
        (RestartState(ILL, "start-1"), "start-1", RestartGateway(MACHINE)),
        (RestartState(ILL, ""), "start-1", RestartGateway(MACHINE)),
        (RestartState(ILL, ""), "", RestartGateway(MACHINE)),
        (RestartState(ILL, "start-2"), "start-1", AwaitGateway(MACHINE)),
        (RestartState(ILL, "start-1"), "", AwaitGateway(MACHINE)),
        (RestartState(WELL, "start-2"), "start-1", Done("the gateway of ada was restarted and is healthy")),
    ],
)
def test_the_next_step_follows_from_the_gateways_start(restart_state: RestartState, before: str, step: object) -> None:
    assert decide(restart_state, before=before) == step


@pytest.mark.parametrize(
    ("observation", "error"),
    [
        (Observation(ADA, None), RefusedError),
        (Observation(ADA, READY), UnavailableError),
        (Observation(replace(ADA, status=InstanceStatus.SUSPENDED), READY), RefusedError),
    ],
    ids=["no machine", "silent", "suspended"],
)
def test_where_no_gateway_can_be_restarted_it_says_so(observation: Observation, error: type[HermesError]) -> None:
    verdict = decide(RestartState(observation, ""), before="start-1")
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, error)
