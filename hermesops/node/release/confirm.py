"""``release confirm``: has an unconfirmed release stay, if it is not too late and its gateway answers."""

from typing import Any

from hermesops.node.errors import NotReadyError, RefusedError
from hermesops.node.instance import fencing_token
from hermesops.node.instance.agent.installation import agent_of
from hermesops.node.machine import Machine
from hermesops.node.protocol import FencingToken
from hermesops.node.release import activation as records
from hermesops.node.release.activation import History
from hermesops.node.release.slots import links, managed_files


def confirm(machine: Machine, release: str, *, lease: FencingToken | None) -> dict[str, Any]:
    """Have an unconfirmed release stay.

    Raises:
        RefusedError: It is not unconfirmed here: it was gone back from, or another one runs.
        NotReadyError: Its gateway does not answer.
        OutrankedError: The lease was taken over.
    """
    with machine.files.locked(machine.layout.lock):
        fencing_token.admit(machine, lease)
        held = records.load(machine)
        if held is None and links.current(machine) == release:
            return {"release": release, "state": "active"}
        if held is None or held.to != release or records.is_due(machine, held):
            last = records.history(machine).last or {}
            raise RefusedError(
                f"release {release} is not unconfirmed here: {links.current(machine)} runs. {last.get('why', '')}"
            )
        agent = agent_of(machine)
        if held.starts and machine.system.ask(agent.base.port, "/health").status == 0:
            raise NotReadyError(f"release {release} is not confirmed: its gateway does not answer")
        before = records.history(machine)
        last = {"to": held.to, "from": held.before, "outcome": "confirmed", "why": "", "at": machine.system.now()}
        order = (held.to, held.before, *(each for each in before.order if each not in {held.to, held.before}))
        # The record first: killed after it, this is found to be done; killed before it, the machine goes back.
        after = History(last, held.before, held.kept, order)
        machine.files.write_if_changed(machine.layout.release_history, after.to_json(), records.PRIVATE)
        records.forget(machine)
        managed_files.clear_rollback_files(machine)
    return {"release": release, "from": held.before, "state": "active"}
