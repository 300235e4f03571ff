"""``warm``: start the gateway of a machine without an instance, so that its user need not wait for it."""

from hermesops.node.instance import fence, fencing_token, render, volume, warm
from hermesops.node.instance.agent.installation import account
from hermesops.node.instance.personalise import Outcome, furnish_home, start_gateway, write_managed
from hermesops.node.machine import Machine
from hermesops.node.protocol import FencingToken
from hermesops.node.release.slots.links import base_of
from hermesops.node.system.files import Access


def warm_up(machine: Machine, *, model_base_url: str, wait_s: float, lease: FencingToken | None = None) -> Outcome:
    """Run the gateway with a placeholder and let it take a turn of which nothing stays; safe to do again.

    Args:
        machine: Which.
        model_base_url: The model router as the machine reaches it.
        wait_s: Seconds the gateway may take to become healthy.
        lease: Under which this is done.

    Raises:
        BadRequestError: The address is none.
        RefusedError: The machine is somebody's, or fenced.
        OutrankedError: The lease was taken over.
        NotReadyError: The machine is not prepared, or the gateway did not become healthy.
    """
    started = machine.system.monotonic()
    with machine.files.locked(machine.layout.lock):
        base = base_of(machine)
        warm.refuse_owned(machine)
        volume.await_open(machine)
        fence.refuse(machine, warm.NOBODY)
        fencing_token.admit(machine, lease)
        owner = account(machine, base.user)
        payload = warm.placeholder(machine, model_base_url)
        outcome = Outcome()
        config, environment = render.managed_config(base, payload), render.managed_environment(base, payload)
        write_managed(machine, config, environment, owner.gid, outcome)
        furnish_home(machine, base, payload, Access(0o600, owner.uid, owner.gid), {}, outcome)
        start_gateway(machine, base, payload, outcome, wait_s=wait_s)
        warm.take_turn(machine, base, payload.secrets.api_server_key)
    outcome.seconds = round(machine.system.monotonic() - started, 3)
    return outcome
