"""Opens a machine's sshd for an operator when toolbox and proxy are gone: a signed order, which the machine fetches."""

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from hermesops.access.identity.signatures import Signers, as_file, fresh_key
from hermesops.base.files.private_file import make_secret
from hermesops.base.waiting import pause_blocking
from hermesops.errors import Hint, Parameter, RefusedError, UnavailableError, UsageError
from hermesops.model.access.break_glass import BreakGlass
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import MachineId
from hermesops.settings.environment import Environment
from hermesops.store.registry import Registry
from hermesops.wire.addresses import own_address
from hermesops.wire.documents.orders import LONGEST_S, BreakGlassOrder, SshHost
from hermesops.wire.documents.signers import Kind
from hermesops.wire.errors import NodeError

WAIT_S = 120.0
"""Seconds that a machine has to fetch an order: it asks about twice a minute."""

_POLL_S = 0.5


@dataclass(frozen=True)
class BreakGlassOrders:
    """Orders of one environment.

    Attributes:
        own_key: The key that signs in the local world where no ``operator_key`` is set; ``None`` where there is none.
    """

    env: Environment
    registry: Registry
    own_key: Callable[[], Signers | None]

    def signers(self) -> Signers:
        """The operator's key, which signs an order.

        Raises:
            RefusedError: There is none.
        """
        if key := self.env.settings.operator_key:
            return Signers(key)
        own_signers = self.own_key() if self.env.is_local else None
        if own_signers is None:
            raise RefusedError(
                "nothing can be signed: no operator_key is set", hint="HERMESOPS_OPERATOR_KEY=~/.ssh/id_ed25519"
            )
        return own_signers

    def key_of(self, order_id: str) -> Path:
        """The private key that logs in by an order; made for it, and for nothing else."""
        return self.env.keys / "break-glass" / order_id

    def forget(self, order_id: str) -> None:
        """Remove the key of an order after its session; absent is success."""
        self.key_of(order_id).unlink(missing_ok=True)

    def close(self, instance: Instance, *, why: str) -> tuple[BreakGlass, ...]:
        """End all orders of an instance early: its machine closes sshd at its next question. The orders that ended."""
        ended = self.registry.break_glass.withdraw(instance.id, why=why)
        for order in ended:
            self.forget(order.id)
        return ended

    def end(self, instance: Instance, order: BreakGlass, *, why: str) -> None:
        """``close``, and remove the key of one order even if that order had ended by itself."""
        self.close(instance, why=why)
        self.forget(order.id)

    def _make_key(self, order_id: str) -> None:
        """Make an order's key, and remove those that killed sessions left and that no order counts for any more."""
        key = self.key_of(order_id)
        make_secret(key, as_file(fresh_key()))
        oldest_s = key.stat().st_mtime - LONGEST_S
        for file in key.parent.iterdir():
            with suppress(FileNotFoundError):  # somebody else removes it at the same time
                if file.stat().st_mtime < oldest_s:
                    file.unlink()

    def make(self, instance: Instance, signers: Signers, *, source: str, seconds: float, why: str) -> BreakGlass:
        """Sign an order and let the machine of an instance find it.

        The machine may be hostile, so whoever logs in shows it a key that was made for this order, not the one that
        signs orders and perhaps releases.

        Args:
            source: The address or network to connect from; empty for this computer's own.
            seconds: From now until sshd closes by itself.

        Raises:
            UsageError: It is too long, or for too many addresses.
            RefusedError: The instance has no machine, or it has not reported a host key.
        """
        order_id = secrets.token_hex(16)
        self._make_key(order_id)
        try:
            return self._ordered(order_id, instance, signers, source=source, seconds=seconds, why=why)
        except BaseException:
            self.forget(order_id)
            raise

    def _ordered(
        self, order_id: str, instance: Instance, signers: Signers, *, source: str, seconds: float, why: str
    ) -> BreakGlass:
        machine_id, host = self._host(instance)
        now = self.registry.now()
        begin = int(now.timestamp())
        order = BreakGlassOrder(
            id=order_id,
            environment=self.env.name,
            instance=instance.id,
            machine=machine_id,
            key=Signers(self.key_of(order_id)).public(),
            source=_network(source or _own_address(host)),
            not_before=begin,
            expires=begin + int(seconds),
        )
        try:
            BreakGlassOrder.from_json(order.to_json())
        except NodeError as wrong:
            hours = LONGEST_S // 3600
            hint = Hint(
                Parameter("for", f"{hours}h"), "at most, and", Parameter("source"), "with an address or a small network"
            )
            raise UsageError(f"machines refuse such an order: {wrong}", hint=hint) from None
        text = order.to_json().decode()
        return self.registry.break_glass.add(
            BreakGlass(
                id=order.id,
                instance_id=instance.id,
                machine_id=machine_id,
                text=text,
                signature=signers.sign(text.encode(), namespace=Kind.BREAK_GLASS),
                source=order.source,
                host_key=host.key,
                who="",
                why=why,
                created_at=now,
                expires_at=now.replace(microsecond=0) + timedelta(seconds=int(seconds)),
            )
        )

    def wait_open(self, instance: Instance, order: BreakGlass, *, timeout_s: float = WAIT_S) -> BreakGlass:
        """Wait until the machine says that it has opened sshd; end the order where that fails or is interrupted.

        Raises:
            RefusedError: It refuses the order, or an operator ended it.
            UnavailableError: It has not fetched the order.
        """
        try:
            return self._wait_open(order, timeout_s)
        except BaseException:
            self.end(instance, order, why="no longer needed")
            raise

    def _wait_open(self, order: BreakGlass, timeout_s: float) -> BreakGlass:
        for _ in range(int(timeout_s / _POLL_S)):
            stored = self.registry.break_glass.get(order.id)
            state = stored.state(self.registry.now())
            if state == "open":
                return stored
            if state != "ordered":
                raise RefusedError(
                    f"the machine did not open sshd, the order is {state}: {stored.outcome or 'no reason given'}",
                    hint="runbooks/break-glass.md explains each reason",
                )
            pause_blocking(_POLL_S)
        raise UnavailableError(
            f"the machine did not fetch the order within {timeout_s:g} s",
            hint="it must be on and reach the service for machines; the same command makes another order",
        )

    def _host(self, instance: Instance) -> tuple[MachineId, SshHost]:
        if instance.machine_id is None:
            raise RefusedError(f"{instance.title} has no machine now", hint=Hint(("instance", "show", instance.title)))
        host = self.registry.break_glass.ssh_host(instance.machine_id)
        if host is None:
            raise RefusedError(
                f"the machine of {instance.title} has never reported a host key, so its identity cannot be verified",
                hint="it asks the platform for orders once it has a certificate and this hermes-node",
            )
        return instance.machine_id, host


def _own_address(host: SshHost) -> str:
    try:
        return own_address(host.address)
    except NodeError as error:
        raise UsageError(
            f"this computer's address is not known: {error}", hint=Hint(Parameter("source", "ADDRESS"))
        ) from None


def _network(source: str) -> str:
    """As an order spells it, which a single address is given a prefix for."""
    return source if "/" in source else f"{source}/{128 if ':' in source else 32}"
