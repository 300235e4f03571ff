"""The agent's roles, hermes-node and the sandbox, on one booted machine with the scripted model behind it."""

import json
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from hermesops.model.billing.route import ROUTES, issue_token
from hermesops.model.ids import InstanceId
from hermesops.vendor.channel import Channel
from hermesops.wire.protocol import PROGRAM, Identity, Payload, Secrets
from hermesops.wire.settings import Settings
from tests.support.images.builds import Made, Workshop
from tests.support.real.machines.agents import ROLES, role_variables
from tests.support.worlds.local.converged import ConvergedWorld

pytestmark = [pytest.mark.machines, pytest.mark.turns(60)]

_CHAT = """
import http.client, json, sys
connection = http.client.HTTPConnection("127.0.0.1", 8642, timeout=60)
headers = {"Authorization": "Bearer " + sys.argv[1], "Content-Type": "application/json"}
body = json.dumps({"model": "agent", "messages": [{"role": "user", "content": sys.stdin.read()}]})
connection.request("POST", "/v1/chat/completions", body=body, headers=headers)
print(json.loads(connection.getresponse().read())["choices"][0]["message"]["content"])
"""


@dataclass
class Prepared:
    """A machine, and what the roles are told about it.

    Attributes:
        key: Bearer of the agent's API.
    """

    world: ConvergedWorld
    machine_id: str
    variables: Mapping[str, object]
    payload: Payload

    @property
    def key(self) -> str:
        return self.payload.secrets.api_server_key

    @property
    def channel(self) -> Channel:
        return self.world.channel(self.machine_id)

    async def run(self, command: str, *, stdin: bytes | None = None, timeout_s: float = 60) -> str:
        done = await self.channel.run(command, timeout_s=timeout_s, stdin=stdin)
        assert done.exit_code == 0, f"{command}: {done.text} {done.stderr.decode()}"
        return done.text

    async def node(self, command: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(await self.run(f"{PROGRAM} {command}", timeout_s=90))
        return answer

    async def personalise(self, settings: Settings | None = None) -> dict[str, Any]:
        payload = replace(self.payload, settings=settings or Settings())
        await self.channel.put("/run/hermes-payload.json", payload.to_json(), mode=0o600)
        return await self.node("personalise /run/hermes-payload.json")

    async def chat(self, text: str) -> str:
        return await self.run(f"python3 -c '{_CHAT}' {self.key}", stdin=text.encode(), timeout_s=70)

    async def python(self, code: str) -> dict[str, Any]:
        """Have the agent run a script with its code-execution tool; the tool's result."""
        chat = await self.chat(f"PYTHON: {code}")
        result: dict[str, Any] = json.loads(chat.removeprefix("TOOL SAID: "))
        return result


@pytest.fixture(scope="module")
async def machine(built_image: Made) -> AsyncIterator[Prepared]:
    """A machine from an image with every role applied; ``test_image`` applies them again, for nothing to change."""
    async with built_image.world.machine(image_id=built_image.image_id) as machine_id:
        yield Prepared(built_image.world, machine_id, role_variables(built_image.world), _payload(built_image.world))


def _payload(world: ConvergedWorld) -> Payload:
    instance = InstanceId("5b8d2c00-0000-4000-8000-000000000001")
    token = issue_token(world.cloud.model_secret, instance, 1, int(time.time()) + 3600)
    return Payload(
        Identity(instance, "5b8d2c00-0000-4000-8000-00000000000a", "light", "c1", 1),
        Secrets(secrets.token_hex(32), token),
        world.cloud.where.model_base_url,
    )


async def test_check_mode_works_before_the_first_run(workshop: Workshop) -> None:
    world = workshop.world
    async with world.machine() as machine_id:
        tried = await world.apply(machine_id, ROLES, role_variables(world), check=True)
        assert tried.status == "done", tried.failure
        assert (await world.channel(machine_id).run("test -e /opt/hermes")).exit_code == 1


async def test_nothing_runs_on_a_machine_without_a_user(machine: Prepared) -> None:
    await machine.run("systemctl start hermes-gateway.service")
    assert "inactive" in await machine.run("systemctl show -P ActiveState hermes-gateway.service")
    assert (await machine.node("status"))["identity"] is None
    judged = await machine.channel.run(f"{PROGRAM} health", timeout_s=30)
    assert judged.exit_code == 4


async def test_the_slot_is_roots_and_holds_nothing_to_install_with(machine: Prepared) -> None:
    assert (await machine.run("find /opt/hermes ! -user root -o -perm /022 ! -type l")).strip() == ""
    assert (
        await machine.run(
            "find / -xdev -name uv -type f 2>/dev/null; ls /var/tmp | grep -v ^systemd-private- | grep hermes || true"
        )
    ).strip() == ""
    assert (await machine.run("ls /opt/hermes/current/skills | head -1")).strip()


EXPOSURE = {
    "hermes-certificate.service": 1.7,
    "hermes-databases.service": 1.8,
    "hermes-data.service": 9.6,  # mounts for everybody, so it has no view of its own of files and devices
    "hermes-firewall-guard.service": 3.8,
    "hermes-firewall.service": 3.5,
    "hermes-gateway.service": 1.2,
    "hermes-identity.service": 1.0,
    "hermes-metrics.service": 1.9,
    "hermes-node-exporter.service": 1.8,  # sees all file systems, and reads how well the clock is kept
    "hermes-monitoring-renew.service": 1.6,  # asks systemd
    "hermes-orders.service": 2.1,
    "hermes-recovery.service": 1.4,
    "hermes-relief.service": 1.9,  # as the metrics: it speaks to the agent's API and reads its processes
    "hermes-release.service": 9.0,  # works on the gateway, its port and the files of the agent
    "hermes-sandbox@x.service": 0.8,
    "hermes-syslog.service": 1.3,
    "hermes-vmagent.service": 1.2,
}
"""The most that ``systemd-analyze security`` may say of each unit of ours, from 0 to 10."""


@pytest.mark.parametrize("unit", sorted(EXPOSURE))
async def test_a_units_exposure_is_small(machine: Prepared, unit: str) -> None:
    output = await machine.run(f"systemd-analyze security --no-pager {unit} | tail -1")
    assert float(output.split(":")[1].split()[0]) <= EXPOSURE[unit]


async def test_every_unit_of_ours_has_a_largest_exposure(machine: Prepared) -> None:
    listed = await machine.run("cd /etc/systemd/system && ls hermes-*.service")
    assert set(listed.split()) == {name.replace("@x", "@") for name in EXPOSURE}


async def test_the_units_carry_their_limits(machine: Prepared) -> None:
    shown = await machine.run("systemctl show -P MemoryMax -P TasksMax hermes-gateway.service")
    assert set(shown.split()) == {str(2 << 30), "512"}
    shown = await machine.run(
        "systemctl show -P MemoryMax -P LimitAS -P RestrictAddressFamilies hermes-sandbox@x.service"
    )
    assert set(shown.split()) == {str(512 << 20), "AF_UNIX"}


async def test_the_roles_routes_are_the_models_routes(machine: Prepared) -> None:
    base = json.loads(await machine.run("cat /etc/hermes-node/gateway.json"))
    assert base["routes"] == [{"name": route.name, "context_tokens": route.context_tokens} for route in ROUTES]


async def test_a_machine_becomes_a_users_agent(machine: Prepared) -> None:
    outcome = await machine.personalise()
    assert outcome["healthy"]
    assert outcome["gateway"] == "started"
    assert (await machine.node("status"))["identity"]["instance"] == machine.payload.identity.instance
    assert (await machine.node("health"))["ok"]
    assert "no" in await machine.run("test -e /run/hermes-payload.json && echo yes || echo no")


async def test_the_same_user_again_changes_nothing(machine: Prepared) -> None:
    outcome = await machine.personalise()
    assert outcome["changed"] == []


async def test_secrets_are_where_only_they_belong(machine: Prepared) -> None:
    modes = await machine.run(
        "stat -c '%n %a %U:%G' /etc/hermes /etc/hermes/* /etc/hermes/.env /etc/hermes-node/*.json"
    )
    held = dict(line.split(" ", 1) for line in modes.splitlines())
    assert held["/etc/hermes/.env"] == "640 root:hermes"
    assert held["/etc/hermes/config.yaml"] == "640 root:hermes"
    assert held["/etc/hermes"] == "750 root:hermes"
    assert {access for name, access in held.items() if name.startswith("/etc/hermes-node")} == {"600 root:root"}
    shown = await machine.run("ps auxwwe; systemctl show hermes-gateway.service; journalctl --no-pager")
    assert machine.key not in shown
    assert machine.payload.secrets.model_token not in shown


async def test_a_chat_uses_the_default_route_and_a_tool_runs_here(machine: Prepared) -> None:
    chat = await machine.chat("RUN: echo proof-$((6*7))-$(id -un)-$(hostname)")
    host = (await machine.run("hostname")).strip()
    assert f"proof-42-hermes-{host}" in chat


async def test_the_terminal_gets_no_key(machine: Prepared) -> None:
    chat = await machine.chat("RUN: env")
    assert "HERMES_HOME" in chat
    assert "AUXILIARY" not in chat
    assert "API_SERVER_KEY" not in chat


async def test_the_gateway_runs_from_the_slots_real_path(machine: Prepared) -> None:
    command = await machine.run("tr '\\0' ' ' </proc/$(systemctl show -P MainPID hermes-gateway.service)/cmdline")
    assert command.startswith("/opt/hermes/releases/")


async def test_a_user_may_choose_another_model(machine: Prepared) -> None:
    outcome = await machine.personalise(Settings(model="gpt-4o"))
    assert outcome["gateway"] == "restarted"
    assert await machine.chat("hello")
    models = await machine.run("grep -o 'model=[a-z0-9-]*' /var/lib/hermes/logs/agent.log | tail -1")
    assert models.strip() == "model=gpt-4o"


async def test_cron_jobs_and_a_personality_are_given_once(machine: Prepared) -> None:
    wanted = Settings(personality="Terse.", cron=({"cron": "0 9 * * *", "prompt": "Good morning", "enabled": True},))
    assert (await machine.personalise(wanted))["cron_jobs_made"] == 1
    assert (await machine.personalise(wanted))["cron_jobs_made"] == 0
    assert "Good morning" in await machine.run("cat /var/lib/hermes/cron/jobs.json")
    assert (await machine.run("cat /var/lib/hermes/SOUL.md")).strip() == "Terse."


async def test_an_adapter_is_loaded_only_for_a_messenger_in_use(machine: Prepared) -> None:
    config = json.loads(await machine.run("cat /etc/hermes/config.yaml"))
    assert len(config["plugins"]["disabled"]) == 20
    loaded = await machine.run(
        "grep -c telegram /proc/$(systemctl show -P MainPID hermes-gateway.service)/maps || true"
    )
    assert loaded.strip() == "0"


async def test_messengers_servers_and_tools_follow_the_settings(machine: Prepared) -> None:
    wanted = Settings(
        messengers={"TELEGRAM_BOT_TOKEN": f"1:{secrets.token_hex(16)}", "TELEGRAM_ALLOWED_USERS": "1"},
        mcp_servers={"nobody": {"url": "http://127.0.0.1:9/mcp", "connect_timeout": 2}},
        disabled_tools=("code_execution",),
    )
    try:
        assert (await machine.personalise(wanted))["healthy"]
        judged = await machine.channel.run(f"{PROGRAM} health", timeout_s=30)
        assert judged.exit_code == 8
        failed = {check["name"] for check in json.loads(judged.text)["checks"] if not check["ok"]}
        assert failed == {"messenger:telegram", "mcp:nobody"}  # both are there, and nobody answers them here
        assert (await machine.chat("PYTHON: print(42)")).startswith("YOU SAID")  # the tool is not offered
    finally:
        await machine.personalise()


async def test_a_normal_script_runs_and_may_call_the_agents_tools(machine: Prepared) -> None:
    code = "from hermes_tools import terminal\nprint(6 * 7, terminal('hostname')['output'])"
    result = await machine.python(code)
    host = (await machine.run("hostname")).strip()
    assert result["output"].strip() == f"42 {host}"
    assert (result["status"], result["tool_calls_made"]) == ("success", 1)


@pytest.mark.parametrize(
    "code",
    [
        "bytearray(600 * 1024 * 1024)",
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'bytearray(600 * 1024 * 1024)'], check=True)",
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (2**40, 2**40))",
    ],
    ids=["itself", "a grandchild", "raising its limit"],
)
async def test_a_script_gets_no_more_than_512_mb(machine: Prepared, code: str) -> None:
    result = await machine.python(code)
    assert result["status"] == "error"
    assert "MemoryError" in result["output"] or "not allowed to raise maximum limit" in result["output"]


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6"])
async def test_a_script_gets_no_network(machine: Prepared, family: str) -> None:
    code = (
        f"import subprocess\nprint(subprocess.run(['python3', '-c', 'import socket; socket.socket(socket.{family})']))"
    )
    for script in (f"import socket\nsocket.socket(socket.{family})", code):
        result = await machine.python(script)
        assert "Address family not supported" in json.dumps(result) or "returncode=1" in result["output"]


async def test_a_script_is_stopped_after_30_s_with_all_it_started(machine: Prepared) -> None:
    begin = "import subprocess, time\nsubprocess.Popen(['setsid', 'sleep', '7654'])\nprint('begun', flush=True)\n"
    result = await machine.python(f"{begin}time.sleep(31)")
    assert (result["status"], result["exit_code"]) == ("error", 124)
    assert "begun" in result["output"]
    assert "after 30 s" in result["output"]
    assert 29.5 < result["duration_seconds"] < 31
    assert (await machine.run("pgrep -fc '^sleep 7654' || true")).strip() == "0"


async def test_a_script_that_kills_its_keeper_ends_with_it(machine: Prepared) -> None:
    code = "import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(5)\nprint('free')"
    result = await machine.python(code)
    assert result["status"] == "error"
    assert "free" not in result["output"]


async def test_what_a_script_leaves_behind_is_killed(machine: Prepared) -> None:
    code = "import subprocess\nsubprocess.Popen(['setsid', 'sleep', '8765'], stdout=subprocess.DEVNULL)\nprint('done')"
    assert (await machine.python(code))["status"] == "success"
    assert (await machine.run("pgrep -fc '^sleep 8765' || true")).strip() == "0"


async def test_a_script_cannot_read_the_agents_keys(machine: Prepared) -> None:
    result = await machine.python("print(open('/etc/hermes/.env').read())")
    assert result["status"] == "error"


async def test_a_script_starts_no_more_than_its_share_of_processes(machine: Prepared) -> None:
    code = (
        "import subprocess\nbegun = []\ntry:\n"
        "  while len(begun) < 200: begun.append(subprocess.Popen(['sleep', '9']))\n"
        "except BlockingIOError: print('refused', len(begun) < 128)\n"
    )
    assert (await machine.python(code))["output"].strip() == "refused True"


async def test_the_agents_own_settings_do_not_open_the_sandbox(machine: Prepared) -> None:
    """A virtual environment of its own, another mode, another backend, a longer time: what the terminal could write."""
    await machine.run(
        "su -s /bin/sh hermes -c '"
        "cd; mkdir -p own/bin; ln -sf /usr/bin/python3 own/bin/python;"
        'printf "VIRTUAL_ENV=/var/lib/hermes/own\\nCONDA_PREFIX=/var/lib/hermes/own\\nTERMINAL_ENV=ssh\\n'
        'PYTHONPATH=/var/lib/hermes\\nHERMES_RPC_SOCKET=/nowhere\\n" > .env;'
        'for it in LOCPATH PYTHONPLATLIBDIR PYTHONPYCACHEPREFIX PYTHONWARNINGS; do echo "$it=own" >> .env; done;'
        'printf "_config_version: 33\\ncommand_allowlist: [execute_code]\\ncode_execution: {mode: %s, timeout: 900}\\n'
        "terminal: {env_passthrough: [PYTHONHOME, VIRTUAL_ENV]}\\n\" strict > config.yaml'"
    )
    try:
        for mode in ("strict", "project"):
            await machine.run(f"sed -i 's/mode: [a-z]*/mode: {mode}/' /var/lib/hermes/config.yaml")
            await machine.run("systemctl restart hermes-gateway.service", timeout_s=90)
            result = await machine.python("print(open('/proc/self/cgroup').read())\nbytearray(600 * 1024 * 1024)")
            assert "hermes-sandbox@" in result["output"], mode
            assert "MemoryError" in result["output"], mode
        # A skill may have any variable passed on to scripts, and these bring code in before the hook.
        names = "$LOCPATH$PYTHONPLATLIBDIR$PYTHONPYCACHEPREFIX$PYTHONWARNINGS"
        result = await machine.python(f"from hermes_tools import terminal\nprint(terminal('echo [{names}]')['output'])")
        assert result["output"].strip() == "[]"
    finally:
        await machine.run("rm -f /var/lib/hermes/.env && systemctl restart hermes-gateway.service", timeout_s=90)


async def test_without_the_sandbox_no_script_runs(machine: Prepared) -> None:
    await machine.run("systemctl stop hermes-sandbox.socket")
    try:
        result = await machine.python("print('free')")
    finally:
        await machine.run("systemctl start hermes-sandbox.socket")
    assert result["exit_code"] == 70
    assert "free" not in result["output"]


async def test_the_machine_is_not_degraded_by_what_scripts_did(machine: Prepared) -> None:
    assert (await machine.run("systemctl is-system-running || true")).strip() == "running"


async def test_a_fork_bomb_of_the_terminal_ends_at_the_gateways_share(machine: Prepared) -> None:
    """Beyond it lies the machine's limit, where the vendor's daemon could start nothing more."""
    bomb = "for it in $(seq 560); do sleep 9 & done; wait"
    await machine.run(f"cat >/var/lib/hermes/bomb.sh <<'END'\n{bomb}\nEND")
    result = await machine.python(
        "from hermes_tools import terminal\nprint(terminal('timeout 20 bash ~/bomb.sh 2>&1'))"
    )
    assert "fork: " in result["output"]


async def test_the_gateway_comes_back_after_a_kill(machine: Prepared) -> None:
    await machine.run("systemctl kill --signal=SIGKILL hermes-gateway.service")
    outcome = await machine.node("configure --wait 30")
    assert outcome["healthy"]


async def test_roles_leave_the_unit_of_a_release_alone(machine: Prepared) -> None:
    await machine.run("sed -i 's/^Description=.*/Description=Newer/' /etc/systemd/system/hermes-gateway.service")
    applied = await machine.world.apply(machine.machine_id, ROLES, machine.variables)
    assert (applied.status, applied.changed) == ("done", ())
