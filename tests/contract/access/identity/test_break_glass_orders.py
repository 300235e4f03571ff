"""An operator's order on its way: signed here, kept by the registry, carried out by a machine, told to the operator."""

import json
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermesops.access.identity.break_glass import BreakGlassOrders
from hermesops.access.identity.signatures import Signers
from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.model.access.certificate import MachineNames
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import MachineId
from hermesops.settings.environment import Environment
from hermesops.store.registry import Registry
from hermesops.wire.documents.handout import Signed
from hermesops.wire.documents.orders import LONGEST_S, Report, SshHost
from tests.support.fakes.machines.polled_machine import BORN, HOST_KEY, PolledMachine, polled_machine
from tests.support.real.stores.registries import TurnedClock, placed
from tests.support.releases.signer import Operator

HERE = MachineId("m-1")


@pytest.fixture
def ada(registry: Registry, clock: TurnedClock) -> Instance:
    clock.timestamp = datetime.fromtimestamp(BORN, UTC)
    return registry.instances.set_machine(placed(registry).id, HERE)


@pytest.fixture
def polled(tmp_path: Path, ada: Instance) -> PolledMachine:
    return polled_machine(tmp_path, MachineNames("local", HERE, ada.cell, ada.id))


@pytest.fixture
def orders(registry: Registry, tmp_path: Path, polled: PolledMachine) -> BreakGlassOrders:
    registry.break_glass.report(HERE, Report(SshHost(HOST_KEY, "127.0.0.1")))
    return BreakGlassOrders(environment(tmp_path), registry, lambda: polled.signer.signers)


def environment(folder: Path, **variables: str) -> Environment:
    return Environment.load("local", {"HOME": str(folder), "HERMESOPS_HOME": str(folder / "home"), **variables})


def polls(registry: Registry, polled: PolledMachine, ada: Instance) -> None:
    """What machine and platform's service do at one question."""
    order = registry.break_glass.current(HERE, ada.id)
    polled.hand(Signed(order.text, order.signature) if order else None)
    for report in polled.platform.reports:
        registry.break_glass.report(HERE, report)
    polled.platform.asked.clear()


def test_the_order_opens_the_machine_and_says_so(
    registry: Registry, orders: BreakGlassOrders, polled: PolledMachine, ada: Instance
) -> None:
    order = orders.make(ada, orders.signers(), source="192.0.2.7", seconds=600, why="cut off")
    assert (order.source, order.host_key, order.who) == ("192.0.2.7/32", HOST_KEY, "tester")
    polls(registry, polled, ada)
    opened = orders.wait_open(ada, order)
    assert (opened.address, opened.expires_at.timestamp()) == ("192.0.2.1", BORN + 600)
    assert polled.ssh.until == {"192.0.2.7/32": BORN + 600}
    assert [order.id for order in orders.close(ada, why="done")] == [order.id]
    assert not orders.key_of(order.id).exists()
    polls(registry, polled, ada)
    assert polled.ssh.admitted == []
    assert registry.break_glass.get(order.id).outcome == "the access was ended early"


def test_a_refusal_of_the_machines_is_told(
    registry: Registry, orders: BreakGlassOrders, polled: PolledMachine, ada: Instance, tmp_path: Path
) -> None:
    eve = Operator(tmp_path, "eve")
    order = orders.make(ada, eve.signers, source="192.0.2.7", seconds=600, why="cut off")
    polls(registry, polled, ada)
    with pytest.raises(RefusedError, match="the order is refused: the signature is by no release signer"):
        orders.wait_open(ada, order)


def test_a_machine_that_does_not_ask_is_told_as_that(orders: BreakGlassOrders, ada: Instance) -> None:
    order = orders.make(ada, orders.signers(), source="192.0.2.7", seconds=600, why="cut off")
    with pytest.raises(UnavailableError, match="did not fetch the order within 1 s"):
        orders.wait_open(ada, order, timeout_s=1)
    ended = orders.registry.break_glass.get(order.id)
    assert ended.state(orders.registry.now()) == "closed", "nobody waits for it any more"
    assert not orders.key_of(order.id).exists()


def test_an_order_that_is_ended_meanwhile_is_not_waited_for(
    registry: Registry, orders: BreakGlassOrders, ada: Instance
) -> None:
    order = orders.make(ada, orders.signers(), source="192.0.2.7", seconds=600, why="cut off")
    ending = threading.Timer(0.3, lambda: registry.break_glass.withdraw(ada.id, why="no"))
    ending.start()
    with pytest.raises(RefusedError, match="the order is closed"):
        orders.wait_open(ada, order)
    ending.join()


@pytest.mark.parametrize(
    ("source", "seconds", "why"),
    [("0.0.0.0/0", 60, "wider than"), ("192.0.2.7", 4 * 3600 + 1, "not within 4 h"), ("ada", 60, "not a network")],
)
def test_what_no_machine_takes_is_not_ordered(
    registry: Registry, orders: BreakGlassOrders, ada: Instance, source: str, seconds: float, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        orders.make(ada, orders.signers(), source=source, seconds=seconds, why="cut off")
    assert registry.break_glass.list() == ()


def test_without_a_source_it_is_this_computers_address_which_no_order_may_have_as_loopback(
    orders: BreakGlassOrders, ada: Instance
) -> None:
    with pytest.raises(UsageError, match="no address that can reach a machine"):
        orders.make(ada, orders.signers(), source="", seconds=60, why="cut off")


Prepare = Callable[[Registry, Instance], Instance]


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (lambda registry, ada: registry.instances.set_machine(ada.id, None), "has no machine now"),
        (lambda registry, ada: registry.instances.set_machine(ada.id, MachineId("m-2")), "never reported a host key"),
    ],
)
def test_a_machine_that_nobody_would_know_is_not_opened(
    registry: Registry, orders: BreakGlassOrders, ada: Instance, prepare: Prepare, why: str
) -> None:
    with pytest.raises(RefusedError, match=why):
        orders.make(prepare(registry, ada), orders.signers(), source="192.0.2.7", seconds=60, why="cut off")


def test_the_operators_key_comes_before_the_local_worlds(orders: BreakGlassOrders, tmp_path: Path) -> None:
    bob = Operator(tmp_path, "bob")
    env = environment(tmp_path, HERMESOPS_OPERATOR_KEY=str(bob.signers.key))
    assert BreakGlassOrders(env, orders.registry, orders.own_key).signers() == Signers(bob.signers.key)
    with pytest.raises(RefusedError, match="no operator_key is set"):
        BreakGlassOrders(orders.env, orders.registry, lambda: None).signers()


def test_a_session_shows_a_key_that_was_made_for_it_and_not_the_one_that_signs(
    orders: BreakGlassOrders, ada: Instance
) -> None:
    """A machine may be hostile, and the key that signs may sign releases, too."""
    first, second = (orders.make(ada, orders.signers(), source="192.0.2.7", seconds=60, why="x") for _ in range(2))

    shown = [json.loads(order.text)["key"] for order in (first, second)]
    assert len({*shown, orders.signers().public()}) == 3
    assert [Signers(orders.key_of(order.id)).public() for order in (first, second)] == shown
    assert orders.key_of(first.id).stat().st_mode & 0o777 == 0o600
    orders.forget(first.id)
    orders.forget(first.id)
    assert (orders.key_of(first.id).exists(), orders.key_of(second.id).exists()) == (False, True)


def test_keys_of_orders_that_count_no_more_or_were_never_made_are_not_kept(
    orders: BreakGlassOrders, ada: Instance
) -> None:
    old = orders.key_of("0" * 32)
    old.parent.mkdir(parents=True)
    old.write_text("left by a session that was killed")
    before = old.stat().st_mtime - LONGEST_S - 1
    os.utime(old, (before, before))
    with pytest.raises(UsageError, match="not a network"):
        orders.make(ada, orders.signers(), source="ada", seconds=60, why="x")
    assert list(old.parent.iterdir()) == []
