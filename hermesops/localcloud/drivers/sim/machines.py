"""The machines of an open simulated world: booted, halted, found by their bearer, and worked on by requests."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Address
from typing import TypeVar

from hermesops.errors import RefusedError
from hermesops.localcloud.drivers.sim.agent.hostility import AgentAnswers, agent_port
from hermesops.localcloud.drivers.sim.daemon.http_peer import HangupError
from hermesops.localcloud.drivers.sim.disk import Disk
from hermesops.localcloud.drivers.sim.guest import Guest
from hermesops.localcloud.drivers.sim.store import Record, Store

LOOPBACK = IPv4Address("127.0.0.1")

_BOOT_S = 0.05
"""Seconds from an order, a start or a reboot until a machine's daemon answers."""

T = TypeVar("T")


class SimMachines:
    """The machines in a store.

    Attributes:
        tokens: Machine id by the bearer of its daemon.
        numbers: Machine id by number.
        connections: Open connections to each machine's daemon.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.tokens = {record.token: record.id for record in store.machines.values()}
        self.numbers = {record.number: record.id for record in store.machines.values()}
        self.connections = defaultdict[str, set[asyncio.StreamWriter]](set)
        self._agent_answers = AgentAnswers()

    def record(self, machine_id: str) -> Record:
        """A machine's record.

        Raises:
            RefusedError: There is no such machine.
        """
        record = self.store.machine(machine_id)
        if record is None:
            raise RefusedError(f"no machine {machine_id}")
        return record

    @staticmethod
    def is_up(record: Record) -> bool:
        """Whether the daemon of a machine answers."""
        return record.is_on and time.time() >= record.booted_at + _BOOT_S

    def boot(self, record: Record) -> None:
        """Boot a machine, whether it is on or off."""
        with self.store.change():
            record = replace(record, is_on=True, boots=record.boots + 1, booted_at=time.time())
            self.store.put(record)
            Guest(self.store, record).boot()

    def halt(self, record: Record) -> None:
        """Switch a machine off at once."""
        self.store.put(replace(record, is_on=False))
        self.cut(record.id)

    def cut(self, machine_id: str) -> None:
        """Close the connections to a machine that went down."""
        for writer in self.connections.pop(machine_id, ()):
            writer.close()

    def running(self, token: str) -> str | None:
        """The machine whose daemon accepts this bearer.

        Raises:
            HangupError: It went down after the lookup of its address: nothing answers for it.
        """
        machine_id = self.tokens.get(token)
        if machine_id and not self.is_up(self.record(machine_id)):
            raise HangupError
        return machine_id

    async def ask_hostile_agent(self, machine_id: str) -> None:
        """Fetch the answer of a hostile agent to hermes-node once; see ``AgentAnswers``."""
        if port := agent_port(Disk(self.store, machine_id), "node"):
            await self._agent_answers.ask(port)

    def guest(self, machine_id: str) -> Guest:
        """The machine as a ``Guest``, for one request."""
        guest = Guest(self.store, self.record(machine_id), self._agent_answers)
        if guest.is_overdue:
            self.work(guest, guest.settle)
            guest = Guest(self.store, self.record(machine_id), self._agent_answers)
        return guest

    def work(self, guest: Guest, do: Callable[[], T]) -> T:
        """Run a function on a machine in one transaction, then reboot or halt the machine on its request."""
        with self.store.change():
            result = do()
            if guest.power == "reboot":
                self.boot(self.record(guest.record.id))
        if guest.power == "poweroff":
            self.halt(self.record(guest.record.id))
        return result
