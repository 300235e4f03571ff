"""Has a release tried: says how each side of the trial would run here, and leaves the rest to ``Slots.exercise``."""

import secrets
from dataclasses import replace

from hermesops.node.instance import render
from hermesops.node.instance.agent.installation import Agent
from hermesops.node.machine import Machine
from hermesops.node.protocol import Payload, Settings
from hermesops.node.release import config_migration
from hermesops.node.release.slots.links import base_of
from hermesops.node.release.slots.managed_files import unit_under
from hermesops.node.release.trial.plan import Side, Trial, Tried

_PORT = 8643


def try_out(
    machine: Machine, agent: Agent, payload: Payload, release: str, *, before: str = "", takes_turns: bool = False
) -> Tried:
    """Try a release on a copy of the state.

    Args:
        machine: Which.
        agent: Whose state.
        payload: What it runs with.
        release: The one that is tried.
        before: The one that must still run on what that made of the copy; empty for none.
        takes_turns: Whether there is a model for it.

    Raises:
        RefusedError: The copy does not fit.
        NotReadyError: It cannot be made.
    """
    key = secrets.token_hex(32)
    new = _side(machine, release, payload, key)
    old = _side(machine, before, payload, key) if before else None
    migrates = config_migration.is_due(machine, agent, release)
    return machine.slots.exercise(Trial(agent.home, _PORT, key, takes_turns, new, old, migrates))


def _side(machine: Machine, release: str, payload: Payload, key: str) -> Side:
    """How a slot would run: with the instance's model, and nothing else of its settings."""
    settings = Settings(model=payload.settings.model, disabled_tools=payload.settings.disabled_tools)
    quiet = replace(payload, settings=settings, secrets=replace(payload.secrets, api_server_key=key))
    slot = machine.layout.releases / release
    base = base_of(machine, release)
    base = replace(base, port=_PORT, environment={**base.environment, "VIRTUAL_ENV": str(slot / "venv")})
    unit = unit_under(machine, release)
    return Side(slot, unit, render.managed_config(base, quiet), render.managed_environment(base, quiet))
