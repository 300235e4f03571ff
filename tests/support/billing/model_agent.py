"""An agent that becomes at once what a decision asks for."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hermesops.model.fleet.instance import InstanceStatus
from hermesops.users.billing.decide import Agent, Bind, Decision, Provision, Resize, Resume, Suspend, Terminate


def after(agent: Agent | None, decision: Decision) -> Agent | None:
    """The agent once a step was done."""
    match decision:
        case Provision(plan=plan, subscription_id=id_):
            held = agent or Agent(InstanceStatus.PROVISIONING, plan, id_)
            return replace(held, status=InstanceStatus.RUNNING)
        case Bind(subscription_id=id_) if agent:
            return replace(agent, subscription_id=id_)
        case Resize(plan=plan) if agent:
            assert agent.status is InstanceStatus.RUNNING
            return replace(agent, plan=plan)
        case Suspend() if agent:
            assert agent.status is InstanceStatus.RUNNING
            return replace(agent, status=InstanceStatus.SUSPENDED, suspended_by_billing=True)
        case Resume() if agent:
            assert agent.status is InstanceStatus.SUSPENDED
            return replace(agent, status=InstanceStatus.RUNNING, ends_at=None)
        case Terminate() if agent:
            assert agent.status is not InstanceStatus.PROVISIONING
            ends_at = datetime.now(UTC) + timedelta(days=7)
            return replace(agent, status=InstanceStatus.SUSPENDED, ends_at=ends_at, ended_by_billing=True)
    raise AssertionError(f"{decision} of {agent}")
