"""Which failed checks follow from another one, on a machine that answers by heart."""

from typing import Any

from hermesops.machines.verify.checks.promise import Expected
from hermesops.machines.verify.verification import verify
from hermesops.model.check import Verdict
from tests.support.fakes.machines.healthy_machine import INSTANCE, KEY_DIGEST, PromisingMachine

EXPECTED = Expected(INSTANCE, 1, KEY_DIGEST, "session-1")
MODES = "stat --format='%n %U:%G %a' /etc"


def silent_machine() -> PromisingMachine:
    """A machine whose gateway has failed."""
    machine = PromisingMachine()
    machine.units["hermes-gateway.service"].update(ActiveState="failed")
    machine.observe["unit"].update(ActiveState="failed", SubState="failed")
    machine.observe["alive"] = {"status": 0, "reason": "refused", "version": ""}
    machine.observe["detailed"] = {"status": 0}
    machine.chat.update(status=0, answered=False)
    machine.answers["systemctl list-units --state=failed"] = (0, "hermes-gateway.service loaded failed failed\n")
    return machine


async def next_commands(machine: PromisingMachine) -> dict[str, str]:
    """The hint of each check and finding that failed."""
    channel: Any = machine
    commands = await verify(channel, EXPECTED)
    return {check.name: str(check.hint) for check in commands.for_user("ada") if check.verdict is not Verdict.OK}


async def test_a_file_with_keys_that_is_gone_is_one_cause_with_one_command() -> None:
    machine = silent_machine()
    code, listed = machine.answers[MODES]
    machine.answers[MODES] = (code, "\n".join(line for line in listed.splitlines() if "/etc/hermes/.env" not in line))
    machine.observe["key_digest"] = ""
    machine.observe["model"]["has_key"] = False
    commands = await next_commands(machine)
    assert commands.pop("secrets").startswith("hermesops provision ada")
    assert {"gateway-service", "api", "key", "ready", "model", "chat", "diagnosis:api-key-mismatch"} <= set(commands)
    assert set(commands.values()) == {"caused by secrets: run its command first"}


async def test_what_a_gateway_that_ended_does_not_answer_follows_from_its_end() -> None:
    machine = silent_machine()
    machine.observe["model"]["router_status"] = 401
    commands = await next_commands(machine)
    [cause] = [name for name in commands if name.startswith("diagnosis:gateway-")]
    assert "instance logs ada" in commands[cause]
    for name in ("gateway-service", "api", "key", "ready", "chat"):
        assert commands[name] == f"caused by {cause}: run its command first"
    assert "provision ada" in commands["model"], "a token that is refused has nothing to do with it"


async def test_a_failure_of_its_own_keeps_its_command() -> None:
    machine = PromisingMachine()
    machine.answers[MODES] = (0, machine.answers[MODES][1].replace("750", "755", 1))
    machine.observe["detailed"]["status"] = 401
    commands = await next_commands(machine)
    assert not [hint for hint in commands.values() if "caused by" in hint]
