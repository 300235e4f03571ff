"""One simulated machine during a request: its disk, its gateway, its clock, and hermes-node on it.

A machine's clock runs ahead of the computer's while something on it sleeps; the server waits for the
difference before the answer goes out, so that nothing blocks and time is still what it takes.
"""

import io
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from hermesops.localcloud.drivers.sim.agent.api import Api
from hermesops.localcloud.drivers.sim.agent.gateway import Gateway
from hermesops.localcloud.drivers.sim.agent.hostility import AgentAnswers, agent_port, lying_node
from hermesops.localcloud.drivers.sim.disk import ACCOUNTS, USER, Disk
from hermesops.localcloud.drivers.sim.node.slots import SimSlots
from hermesops.localcloud.drivers.sim.node.state import SimState
from hermesops.localcloud.drivers.sim.node.system import (
    SimFiles,
    SimGate,
    SimKeys,
    SimSsh,
    SimVolumes,
    in_time,
    no_platform,
)
from hermesops.localcloud.drivers.sim.store import Entry, Record, Store
from hermesops.programs.node import __main__ as node
from hermesops.programs.node.instance import certificate
from hermesops.programs.node.instance.agent.api import Answer
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.release import activation
from hermesops.programs.node.release.activate import WATCH
from hermesops.programs.node.system.files import Access
from hermesops.wire.errors import NotReadyError
from hermesops.wire.layout import UNIT, Layout

_UNSEEN = frozenset({WATCH, "hermes-monitoring.target", "hermes-metrics.timer"})
"""Units of which nothing is to be seen on a simulated machine."""

_FOLDER = Entry(stat.S_IFDIR | 0o755, 0, 0, b"")


class Guest:
    """Implements hermes-node's ``System`` on a running machine; made for one request.

    Attributes:
        slept_s: Seconds that were slept on the machine.
        power: The machine's request about its own power: ``reboot``, ``poweroff``, or nothing.
    """

    def __init__(self, store: Store, record: Record, agent_answers: AgentAnswers | None = None) -> None:
        self.store = store
        self._agent_answers = agent_answers or AgentAnswers()
        self.record = record
        self.disk = Disk(store, record.id)
        self.gateway = Gateway(store, record, self.disk, self.monotonic)
        self.api = Api(self.gateway, self.monotonic)
        self.slept_s = 0.0
        self.power = ""

    @property
    def boot_id(self) -> str:
        """The kernel's id of this boot."""
        return str(uuid5(NAMESPACE_OID, f"{self.record.id} boot {self.record.boots}"))

    @property
    def machine_id(self) -> str:
        """The content of ``/etc/machine-id`` on the machine."""
        return uuid5(NAMESPACE_OID, f"{self.record.id} machine").hex

    @property
    def uptime_s(self) -> float:
        """Seconds since the machine's last boot."""
        return max(0.0, self.monotonic() - self.record.booted_at)

    def boot(self) -> None:
        """Run the changes of a boot: clear ``/run``, make a missing machine key, start an enabled gateway."""
        self.disk.forget_memory()
        self.gateway.stop()  # also where an image says that it ran: that was another machine's
        machine = self._machine(Path("/"))
        if machine.files.read(machine.layout.machine_key) is None:  # as hermes-identity.service does
            certificate.request(machine)
        if self.gateway.state.enabled:
            self.gateway.start()

    @property
    def is_overdue(self) -> bool:
        """Whether a change of release is to be ended by hermes-release.service, which runs on no simulated machine."""
        if self.disk.entry(str(Layout().activation)) is None:
            return False
        machine = self._machine(Path("/"))
        pending = activation.load(machine)
        return pending is not None and activation.is_due(machine, pending)

    def processes(self) -> list[dict[str, Any]]:
        """The machine's processes, by number: systemd, the vendor's daemon, and a running gateway."""
        running = [(1, "systemd", "/sbin/init"), (2, "justavps-daemon", "/usr/local/bin/justavps-daemon")]
        if self.gateway.is_active:
            running.append((int(self.gateway.show()["MainPID"]), "hermes", "hermes gateway run"))
        return [
            {"pid": pid, "user": USER if name == USER else "root", "command": name, "args": args, "state": "S"}
            for pid, name, args in running
        ]

    def settle(self) -> None:
        """End an overdue change of release, in place of hermes-release.service."""
        self.node(["release", "settle"])

    def node(self, arguments: Sequence[str]) -> tuple[int, str, str]:
        """Run hermes-node; return exit code and both outputs."""
        if lie := lying_node(self.disk, arguments):
            self.slept_s += lie[3]
            return lie[:3]
        out, err = io.StringIO(), io.StringIO()
        self.gateway.write_log()
        if list(arguments) == ["metrics"]:
            self.disk.put(str(Layout().metrics.parent), _FOLDER)  # as hermes-metrics.service does
        try:
            with redirect_stderr(err):  # argparse writes there by itself
                code = node.run(arguments, self._machine, out, err)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        return code, out.getvalue(), err.getvalue()

    def _machine(self, root: Path) -> Machine:
        state = SimState(self.store, self.record.id, self.disk, self.gateway)
        volumes = SimVolumes(self.disk, self.record.disk_gib)
        slots = SimSlots(self.store, self.record.id, self.disk)
        return Machine(
            Layout(root),
            SimFiles(self.disk),
            self,
            state,
            SimKeys(),
            no_platform,
            volumes,
            SimGate(self.disk),
            no_platform,
            SimSsh(),
            in_time,
            slots=slots,
        )

    # hermes-node's System

    def account(self, user: str) -> Access | None:
        uid = ACCOUNTS.get(user)
        return None if uid is None else Access(0o600, uid, uid)

    def systemctl(self, *words: str, check: bool = True) -> str:
        code, out, err = self.units(words)
        if check and code:
            raise NotReadyError(f"systemctl {' '.join(words)}: {err.strip() or code}")
        return out

    def ask(
        self,
        port: int,
        path: str,
        *,
        key: str = "",
        body: Mapping[str, Any] | None = None,
        method: str = "",
        timeout_s: float = 5.0,
        largest: int | None = None,
    ) -> Answer:
        del largest  # a simulated answer is small
        if not self.gateway.listens(port):
            return Answer(0, "[Errno 111] Connection refused")
        if elsewhere := agent_port(self.disk, "node"):
            answer, seconds = self._agent_answers.answer(elsewhere, timeout_s)
            self.slept_s += seconds
            return answer
        return Answer(*self.api.answer(method or ("GET" if body is None else "POST"), path, key, body or {}))

    def connections(self, port: int) -> int:
        """See ``node.system.systemd.connections``: none that outlasts a request."""
        del port
        return 0

    def now(self) -> float:
        return self.monotonic()

    def monotonic(self) -> float:
        """See ``node.system.systemd.monotonic``; of all simulated machines it is the time since 1970."""
        return time.time() + self.slept_s

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds

    # systemd

    def units(self, words: Sequence[str]) -> tuple[int, str, str]:
        """Run systemctl with these words; return exit code and both outputs."""
        options = {word for word in words if word.startswith("-")}
        verb, *names = [word for word in words if not word.startswith("-")] or ["list-units"]
        match verb:
            case "is-system-running":
                return 0, "running\n", ""
            case "reboot" | "poweroff" | "halt":
                self.power = "reboot" if verb == "reboot" else "poweroff"
                return 0, "", ""
            case "show":
                return 0, self._show(words), ""
            case "daemon-reload" | "list-units" | "reset-failed":
                return 0, "", ""
        if names and set(names) <= _UNSEEN:
            return 0, "", ""  # the next request does what it would have done by then
        if names != [UNIT]:
            return 5, "", f"Failed to {verb} {' '.join(names)}: Unit not found.\n"
        return self._unit(verb, options)

    def _unit(self, verb: str, options: set[str]) -> tuple[int, str, str]:
        gateway = self.gateway
        match verb:
            case "is-active":
                state = gateway.show()["ActiveState"]
                return (0 if state == "active" else 3), f"{state}\n", ""
            case "is-enabled":
                return (0 if gateway.state.enabled else 1), "enabled\n" if gateway.state.enabled else "disabled\n", ""
            case "start":
                gateway.start()
            case "stop":
                gateway.stop()
            case "restart":
                gateway.stop()
                gateway.start()
            case "kill":
                gateway.stop()
            case "enable" | "disable":
                gateway.enable(enabled=verb == "enable")
                if "--now" in options:
                    (gateway.start if verb == "enable" else gateway.stop)()
            case _:
                return 1, "", f"Unknown command verb {verb}.\n"
        return 0, "", ""

    def _show(self, words: Sequence[str]) -> str:
        properties: list[str] = []
        names: list[str] = []
        rest = iter(words[1:])
        for word in rest:
            if word in {"-p", "--property"}:
                properties += next(rest, "").split(",")
            elif word.startswith("--property="):
                properties += word.partition("=")[2].split(",")
            elif word.startswith("-p"):
                properties += word[2:].split(",")
            elif not word.startswith("-"):
                names.append(word)
        blocks = []
        for name in names:
            shown = (
                self.gateway.show()
                if name == UNIT
                else {"Id": name, "LoadState": "not-found", "ActiveState": "inactive"}
            )
            blocks.append(
                "".join(f"{key}={value}\n" for key, value in shown.items() if not properties or key in properties)
            )
        return "\n".join(blocks)
