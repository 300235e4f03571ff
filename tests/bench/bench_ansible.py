"""Ansible over the toolbox: a second run of every role, and one task beside the same over a local connection."""

import itertools
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from hermesops.app import Container
from hermesops.app.connected import Connected
from hermesops.base import assets
from hermesops.machines.converge import Access, Converger, Host
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import MachineId
from tests.bench.figures import Board, report

_IMAGE = "hermes-base"
_TASKS = 10
_TURNS = 2


async def measure(board: Board, app: Container, folder: Path) -> None:
    """Add the figures, on the machine of the youngest living instance.

    Raises:
        AssertionError: A run did not end well, or the roles disagree with the machine that they made.
    """
    instance = app.registry.instances.list(status=InstanceStatus.RUNNING)[-1]
    assert instance.machine_id is not None
    machine = Host("machine", instance.machine_id)
    endpoint = app.endpoint
    assert endpoint.api_key_file is not None
    converger = Converger(assets.folder("ansible"), Access(endpoint.api_url, endpoint.api_key_file))
    async with app.connect() as connected:
        await _second_run(board, converger, machine, connected.container.image_recipes.of_agents(_IMAGE).variables)
        await _one_task(board, converger, machine, connected, folder)


async def _second_run(board: Board, converger: Converger, machine: Host, variables: Mapping[str, object]) -> None:
    report("==> every role, on a machine that has them from the image")
    first = await converger.run("instance", [machine], variables=variables)
    first.require_ok()
    second = await converger.run("instance", [machine], variables=variables)
    second.require_ok()
    result = second.hosts["machine"]
    each = second.seconds / (result.ok + result.skipped)
    board.add(
        "every role again, over the toolbox",
        f"{second.changed} changed of {result.ok}, {second.seconds:.1f} s",
        target="0 changed",
        against=f"the run before it: {first.changed} changed, {first.seconds:.1f} s; {each * 1000:.0f} ms a task",
    )
    assert not second.changed, result.changed


async def _one_task(board: Board, converger: Converger, machine: Host, connected: Connected, folder: Path) -> None:
    report(f"==> {_TASKS} tasks over a local connection, and over the toolbox, {_TURNS} times in turns")
    playbook = _playbook(folder)
    here = Host("here", "", {"ansible_connection": "local", "ansible_python_interpreter": sys.executable})
    took: dict[str, list[float]] = {"here": [], "machine": []}
    for _ in range(_TURNS):
        for host in (here, machine):
            took[host.name] += await _task_seconds(converger, playbook, host)
    local, toolbox = statistics.median(took["here"]), statistics.median(took["machine"])
    channel = connected.instance_client.channel(MachineId(machine.machine_id))
    bare = []
    for _ in range(_TASKS * _TURNS):
        started = time.perf_counter()
        await channel.run("true", timeout_s=30)
        bare.append(time.perf_counter() - started)
    board.add(
        f"an Ansible task over the toolbox, median of {len(took['machine'])}",
        f"{toolbox * 1000:.0f} ms",
        against=f"the same over a local connection on this computer: {local * 1000:.0f} ms; "
        f"toolbox {toolbox / local:.1f}x of it",
    )
    board.add(
        "  a command over the toolbox without Ansible",
        f"{statistics.median(bare) * 1000:.0f} ms",
        against=f"the task: {toolbox / statistics.median(bare):.0f}x of it",
    )


async def _task_seconds(converger: Converger, playbook: Path, host: Host) -> list[float]:
    """Seconds from each task's start to the next one's."""
    starts: list[float] = []
    done = await converger.run(str(playbook), [host], report=lambda _: starts.append(time.perf_counter()))
    done.require_ok()
    assert len(starts) == _TASKS + 1
    # The first is left out: it opens the connection.
    return [later - earlier for earlier, later in itertools.pairwise(starts[1:])]


def _playbook(folder: Path) -> Path:
    task = "    - name: Do nothing\n      ansible.builtin.command: /bin/true\n      changed_when: false\n"
    path = folder / "nothing.yml"
    path.write_text(
        f"- name: Measure\n  hosts: instances\n  gather_facts: false\n  tasks:\n{task * (_TASKS + 1)}", encoding="utf-8"
    )
    return path
