"""A rollout's pass over machines that have the release already: ten looks, by hermes-node and as ten tasks of Ansible.

Both go over the same toolbox, and the machines run on the same cores as what asks them; so each figure is given by the
clock, which suffers from whatever else the computer does, and by the processor time of everything that took part.
"""

import asyncio
import os
import resource
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermesops.app import Container
from hermesops.base import assets
from hermesops.localcloud.server.process import ServerProcess
from hermesops.localcloud.world.files import WorldFiles
from hermesops.machines.converge import Access, Converger, Host
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.vendor.channel import Channel
from hermesops.wire.protocol import PROGRAM
from tests.bench.bench_idle import Machines
from tests.bench.figures import Board, report

TARGET = 600
"""Hosts a minute and core."""

_TURNS = 20
"""How often each machine is passed over."""

_AT_ONCE = 2
"""For each core; more wait for one another."""

_PLAYBOOK = """\
- name: Ten looks
  hosts: instances
  gather_facts: false
  tasks:
    - {name: Slot, ansible.builtin.stat: {path: /opt/hermes/current/release.json}, register: slot, failed_when: not slot.stat.exists}
    - {name: Record, ansible.builtin.slurp: {src: /opt/hermes/current/release.json}, register: record}
    - {name: Unit, ansible.builtin.slurp: {src: /etc/systemd/system/hermes-gateway.service}}
    - {name: Config, ansible.builtin.slurp: {src: /etc/hermes/config.yaml}}
    - {name: Environment, ansible.builtin.slurp: {src: /etc/hermes/.env}, no_log: true}
    - {name: Settled, ansible.builtin.stat: {path: /etc/hermes-node/activation.json}, register: it, failed_when: it.stat.exists}
    - {name: Unfenced, ansible.builtin.stat: {path: /etc/hermes-node/fenced}, register: it, failed_when: it.stat.exists}
    - {name: Accepting, ansible.builtin.stat: {path: /var/lib/hermes/.drain_request.json}, register: it, failed_when: it.stat.exists}
    - {name: Owned, ansible.builtin.stat: {path: /etc/hermes-node/identity.json}, register: it, failed_when: not it.stat.exists}
    - {name: Listening, ansible.builtin.wait_for: {port: 8642, timeout: 2}}
"""  # noqa: E501 - YAML


@dataclass(frozen=True)
class Spent:
    """What a pass took, for each host.

    Attributes:
        wall_s: By the clock, all cores.
        cpu_s: Of us, our children, the local world's server and its machines.
    """

    wall_s: float
    cpu_s: float

    def __str__(self) -> str:
        by_clock = 60 / self.wall_s / (os.cpu_count() or 1)
        return f"{by_clock:.0f} hosts a minute and core by the clock, {60 / self.cpu_s:.0f} by processor time"


async def measure(board: Board, app: Container, folder: Path) -> None:
    """Add the figures, on every living instance's machine.

    Raises:
        AssertionError: A machine is not as it was left, or Ansible finds it so.
    """
    living = app.registry.instances.list(status=InstanceStatus.RUNNING)
    machines = [instance.machine_id for instance in living if instance.machine_id]
    cpu = Cpu(app.env.world)
    async with app.connect() as connected:
        channels = [connected.instance_client.channel(machine) for machine in machines]
        report(f"==> ten looks at {len(channels)} machines, {_TURNS} times by hermes-node")
        await _pass(channels, 1)  # the first look warms the machines' page caches
        node = await _timed(cpu, len(channels) * _TURNS, lambda: _pass(channels, _TURNS))
        start = await _timed(cpu, len(channels) * _TURNS, lambda: _pass(channels, _TURNS, f"{PROGRAM} --help"))
    hosts = [Host(f"host{number}", machine) for number, machine in enumerate(machines)]
    ansible = await _timed(cpu, len(hosts), lambda: _ansible(app, hosts, folder))
    board.add(
        f"a rollout's pass without a change, {len(channels)} machines",
        str(node),
        target=f">= {TARGET} hosts a minute and core",
        against=f"Ansible's ten tasks over the same toolbox: {ansible}; "
        f"{ansible.cpu_s / node.cpu_s:.0f}x of its processor time",
    )
    board.add("  a start of hermes-node that imports everything", str(start), against="the pass above")


async def _timed(cpu: "Cpu", hosts: int, run: Callable[[], Awaitable[None]]) -> Spent:
    before, started = cpu.seconds(), time.perf_counter()
    await run()
    return Spent((time.perf_counter() - started) / hosts, (cpu.seconds() - before) / hosts)


async def _pass(channels: Sequence[Channel], turns: int, command: str = f"{PROGRAM} release check") -> None:
    gate = asyncio.Semaphore(_AT_ONCE * (os.cpu_count() or 1))

    async def one(channel: Channel) -> None:
        async with gate:
            done = await channel.run(command, timeout_s=60)
        assert done.exit_code == 0, done

    for _ in range(turns):
        await asyncio.gather(*map(one, channels))


async def _ansible(app: Container, hosts: Sequence[Host], folder: Path) -> None:
    report(f"==> the same as ten tasks of Ansible on {len(hosts)} machines")
    playbook = folder / "ten-looks.yml"
    playbook.write_text(_PLAYBOOK, encoding="utf-8")
    endpoint = app.endpoint
    assert endpoint.api_key_file is not None
    converger = Converger(assets.folder("ansible"), Access(endpoint.api_url, endpoint.api_key_file), forks=len(hosts))
    done = await converger.run(str(playbook), hosts)
    done.require_ok()
    assert all(result.ok == 10 for result in done.hosts.values()), done


class Cpu:
    """Processor time of everything that takes part.

    Args:
        world: Folder of the local world.
    """

    def __init__(self, world: Path) -> None:
        places = WorldFiles(world)
        self._server = ServerProcess(places.lock, places.log).pid()
        self._machines = Machines(world)

    def seconds(self) -> float:
        """So far."""
        ours = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(each.ru_utime + each.ru_stime for each in ours) + self._of_server() + self._machines.seconds()

    def _of_server(self) -> float:
        fields = Path("/proc", str(self._server), "stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
