"""One fault from its injection to its end: it is brought about, exactly its alert fires, its runbook ends both.

What is expected of a fault is data (``tests.support.faults.table``); how long each stage took is measured.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from hermesops.base.waiting import Pending, WaitExpiredError, cancel, pause, until
from hermesops.errors import HermesError, fill
from hermesops.observability.runbook.fault import Action, AtVendor, ByCommand, Fault, OnMachine
from hermesops.observability.runbook.faults import FAULTS
from tests.support.faults.watched import REASON, USERS, About, Firing, WatchedFleet
from tests.support.vendor.outside_changes import delete_behind_its_back, stop_behind_its_back

Act = Callable[[WatchedFleet, str], Awaitable[None]]
"""Does something to a fleet, about a user."""

FLICKER_S = 6.0
"""Seconds for which an alert may be seen that another one then mutes: they are evaluated in groups."""

_QUIET_S = 420.0
_TURN_S = 60.0
"""Seconds that a user waits for an answer."""

_LEFT_S = 90.0
_ENDED_S = 900.0
_VERIFIED_S = 180.0
_HALTED = 8


@dataclass(frozen=True)
class Chain:
    """A fault, and what has to follow from it.

    Attributes:
        fault: Its name in ``hermesops.observability.runbook.faults``, or one of its own.
        alert: The one that has to fire; empty where nothing may.
        about: Whom it is about; empty for ``user``.
        meaning: Of a fault that has no entry there.
        inject: How it is brought about; ``None`` for the actions of the entry.
        runbook: What is given to ``runbook run``; empty for the alert's name, ``none`` where it ends by itself.
        whose: Of whom the runbook is run, one after the other; empty for ``user``, ``("",)`` for nobody.
        pick: The step that a person would choose; the run begins with it.
        halts: Whether the runbook stops, as it ends with something that is done by hand; ``None`` for either.
        by_hand: What is done then; also where the runbook says so outside of its steps.
        again: The step that it is then continued from.
        beside: Names of alerts that rightly fire as well.
        before: Names of those that rightly fire until the alert does: the fault itself brings their cause about. From
            then on the alert has to mute them.
        repairs: What the monitor rightly does by itself.
        restarted: Users whose gateways this may start anew, beside ``user``.
        meanwhile: Done again and again while the runbook runs, as whoever follows it would.
        shows: What shows the fault in the place of an alert that can be asked for.
        turns: Whether users talk to their agents meanwhile.
        resolves: Why it does not end with the runbook; then it is undone, and that is told.
        undo: What makes the world as it was before, whatever came of it.
        ended_s: Within which the alert has to end after the runbook.
        is_alone: Whether nothing else may be broken meanwhile, as it is about more than one user's machine.
    """

    fault: str
    alert: str = ""
    user: str = "ada"
    about: str = ""
    meaning: str = ""
    inject: Act | None = None
    runbook: str = ""
    whose: tuple[str, ...] = ()
    pick: str = ""
    halts: bool | None = False
    by_hand: Act | None = None
    again: str = ""
    beside: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    repairs: frozenset[tuple[str, str]] = frozenset()
    restarted: tuple[str, ...] = ()
    meanwhile: Act | None = None
    shows: Callable[[WatchedFleet], Awaitable[bool]] | None = None
    turns: bool = False
    resolves: str = ""
    undo: Act | None = None
    alert_s: float = 300.0
    ended_s: float = _QUIET_S
    quiet_s: float = 60.0
    is_alone: bool = False

    @property
    def entry(self) -> Fault | None:
        """Of the table of faults."""
        return next((fault for fault in FAULTS if fault.name == self.fault), None)

    @property
    def expected(self) -> About:
        """The alert, and whom it is about."""
        return self.alert, self.about or self.user


@dataclass(frozen=True)
class NotHad:
    """What a local world of real machines cannot have, or not within a test.

    Attributes:
        alert: One that is missing in the table.
        fault: One of the table of faults; empty for an alert without any.
    """

    alert: str
    fault: str
    why: str


@dataclass
class Outcome:
    """What came of it.

    Attributes:
        wrong: Why it is not as it should be; nothing where it is.
        beside: Alerts that were seen as well, those that another one mutes in brackets.
    """

    chain: Chain
    runbook: str = ""
    alert_s: float | None = None
    runbook_s: float | None = None
    resolved_s: float | None = None
    wrong: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> tuple[float | None, ...]:
        """From the fault to the alert, of the runbook, and from there to the alert's end."""
        return self.alert_s, self.runbook_s, self.resolved_s


async def run(chain: Chain, fleet: WatchedFleet) -> Outcome:
    """Have it happen; whatever goes wrong is told in the outcome, and the world is made whole again."""
    outcome = Outcome(chain, chain.runbook or chain.alert or (chain.entry.runbook if chain.entry else ""))
    whose = (chain.user, chain.about or chain.user, "fleet")
    try:
        with contextlib.suppress(WaitExpiredError):  # what another fault left is that one's
            await fleet.quiet(() if chain.is_alone else whose, within_s=_LEFT_S)
        await fleet.ended(chain.expected, within_s=_ENDED_S)  # it goes on for a while after what ends it
        left = fleet.record.told
        before = await fleet.gateways()
        began = time.monotonic()
        async with _turns(fleet, chain):
            await _happen(chain, fleet, outcome)
        _judge(chain, fleet, outcome, began, left)
        after = await fleet.gateways()
        spared = USERS if chain.is_alone else ()
        changed = [
            user for user in spared if user not in (chain.user, *chain.restarted) and before[user] != after[user]
        ]
        if changed:
            outcome.wrong.append(f"the gateways of {', '.join(changed)} were started anew: {before} {after}")
    except (AssertionError, HermesError, TimeoutError) as error:
        outcome.wrong.append(f"{type(error).__name__}: {error} {sorted(fleet.record.told)}")
    finally:
        if chain.undo:
            try:
                await chain.undo(fleet, chain.user)
            except (AssertionError, HermesError) as error:
                outcome.wrong.append(f"it could not be undone: {error}")
    return outcome


async def run_all(chosen: Sequence[Chain], fleet: WatchedFleet, report: Callable[[str], None]) -> list[Outcome]:
    """Have all of them happen: those of one user after the other, at most two at a time, then those that are alone.

    Three at once would be many: of a fleet of three, alerts say of many what they would say of each.
    """
    two, outcomes = asyncio.Semaphore(2), list[Outcome]()

    async def lane(some: Sequence[Chain]) -> None:
        for chain in some:
            async with two:
                outcomes.append(await run(chain, fleet))
                report(line(outcomes[-1]))

    shared = [each for each in chosen if not each.is_alone]
    await asyncio.gather(*(lane([chain for chain in shared if chain.user == user]) for user in USERS))
    await lane([chain for chain in chosen if chain.is_alone])
    return outcomes


async def _happen(chain: Chain, fleet: WatchedFleet, outcome: Outcome) -> None:
    entry = chain.entry
    # Whoever brings a fault about otherwise may make its user only then.
    fault = entry.filled(await _values(fleet, chain.user)) if entry and not chain.inject else None
    for command in fault.prepare if fault else ():
        await fleet.command.ok(*command.words)
    began = time.monotonic()
    if chain.inject:
        await chain.inject(fleet, chain.user)
    else:
        assert fault, f"{chain.fault} has no actions"
        for action in fault.inject:
            await act(fleet, chain.user, action)
    if chain.alert:
        await _until_fires(chain, fleet)
        outcome.alert_s = time.monotonic() - began
    else:
        await pause(chain.quiet_s)
    began = time.monotonic()
    await _repair(chain, fleet, outcome)
    outcome.runbook_s = time.monotonic() - began
    began = time.monotonic()
    if chain.resolves and chain.undo:
        await chain.undo(fleet, chain.user)
    if chain.alert:
        await _until_ended(chain, fleet)
        outcome.resolved_s = time.monotonic() - began
    for user in USERS if chain.is_alone else (chain.user,):
        await _verify(fleet, user)


async def _verify(fleet: WatchedFleet, user: str) -> None:
    """Wait until everything that is promised of an agent holds: some of it takes a minute after a repair."""

    async def holds() -> bool | Pending[bool]:
        verified = await fleet.command.run("instance", "verify", user)
        broken = [line for line in verified.stdout.splitlines()[1:-1] if line.split()[1:2] != ["ok"]]
        return verified.exit_code == 0 or Pending(" | ".join(broken[:3]) or verified.stderr)

    await until(holds, what=f"instance verify {user}", timeout_s=_VERIFIED_S, every_s=5)


async def _repair(chain: Chain, fleet: WatchedFleet, outcome: Outcome) -> None:
    if outcome.runbook == "none":
        return
    for user in chain.whose or (chain.user,):
        words = ("runbook", "run", outcome.runbook, *(("--instance", user) if user else ()), "--yes")
        picked = ("--from", chain.pick) if chain.pick else ()
        running = asyncio.create_task(fleet.command.run(*words, *picked))
        while chain.meanwhile and not running.done():
            await chain.meanwhile(fleet, user)
            await asyncio.wait({running}, timeout=2)
        ran = await running
        allowed = {0, _HALTED} if chain.halts is None else {_HALTED if chain.halts else 0}
        assert ran.exit_code in allowed, str(ran)
        if chain.by_hand:
            await chain.by_hand(fleet, user or chain.user)
        if chain.again:
            await fleet.command.ok(*words, "--from", chain.again)


async def _until_fires(chain: Chain, fleet: WatchedFleet) -> None:
    async def fires() -> bool | Pending[bool]:
        if chain.shows:
            return await chain.shows(fleet) or Pending("it does not show")
        return True if chain.expected in fleet.record.told else Pending(str(sorted(fleet.record.told)))

    await until(fires, what=f"{chain.expected} to fire", timeout_s=chain.alert_s, every_s=0.5)


async def _until_ended(chain: Chain, fleet: WatchedFleet) -> None:
    async def ended() -> bool | Pending[bool]:
        if chain.shows:
            return not await chain.shows(fleet) or Pending("it shows")
        open_ones = [
            firing for firing in fleet.record.firings if firing.ended is None and firing.about == chain.expected
        ]
        return True if not open_ones and not fleet.record.problem else Pending(f"{open_ones} {fleet.record.problem}")

    await until(ended, what=f"{chain.expected} to end", timeout_s=chain.ended_s, every_s=0.5)


def _judge(chain: Chain, fleet: WatchedFleet, outcome: Outcome, began: float, left: Collection[About]) -> None:
    """Which alerts fired beside the one, and what the monitor did; of a chain beside others, about its user."""
    mine = {chain.user, chain.about, "fleet"}
    fired = [
        firing
        for firing in fleet.record.since(began)
        if firing.about not in {chain.expected, *left} and (chain.is_alone or firing.about[1] in mine)
    ]
    outcome.beside = sorted({_word(firing) for firing in fired})
    for firing in fired:
        is_right = firing.about[0] in chain.beside or _ended_with_the_alert(chain, fleet, firing, began)
        if firing.told_s >= FLICKER_S and not is_right:
            outcome.wrong.append(
                f"{' of '.join(firing.about)} fired as well ({firing.figure}), for {firing.told_s:.0f} s"
            )
    repairs = {repair for repair in fleet.monitor.repairs(began) if chain.is_alone or repair[1] == chain.user}
    outcome.repairs = sorted(" ".join(repair) for repair in repairs)
    if not repairs <= chain.repairs:
        outcome.wrong.append(f"the monitor did {sorted(repairs - chain.repairs)}")


def _ended_with_the_alert(chain: Chain, fleet: WatchedFleet, firing: Firing, began: float) -> bool:
    """Whether one that may fire before the alert was told of no longer once the alert was."""
    if firing.about[0] not in chain.before:
        return False
    alerts = [other.began for other in fleet.record.since(began) if other.about == chain.expected]
    return bool(alerts) and firing.told_at is not None and firing.told_at <= min(alerts) + FLICKER_S


def _word(firing: Firing) -> str:
    words = ":".join(firing.about)
    return words if firing.told_s >= FLICKER_S else f"({words})"


async def act(fleet: WatchedFleet, user: str, action: Action) -> None:
    """Carry out a fault's action on a user's machine."""
    match action:
        case OnMachine(script=script):
            await fleet.on_machine(user, script)
        case AtVendor(verb=verb):
            change = stop_behind_its_back if verb == "stop" else delete_behind_its_back
            await change(fleet.command.home / "local" / "world", (await fleet.instance(user))["machine_id"])
        case ByCommand(words=words):
            await fleet.command.ok(*words)


async def _values(fleet: WatchedFleet, user: str) -> dict[str, str]:
    shown = await fleet.instance(user)
    return {"USER": user, "INSTANCE": shown["instance_id"], "PLAN": shown["plan"], "CELL": shown["cell"]}


def on_machine(*scripts: str) -> Act:
    """Scripts on the user's machine."""

    async def do(fleet: WatchedFleet, user: str) -> None:
        for script in scripts:
            await fleet.on_machine(user, script)

    return do


def on_platform(*scripts: str) -> Act:
    """Scripts on the platform's host."""

    async def do(fleet: WatchedFleet, _: str) -> None:
        for script in scripts:
            await fleet.on_platform(script)

    return do


def commands(*lines: Sequence[str]) -> Act:
    """Commands of hermesops; ``USER`` stands for the user."""

    async def do(fleet: WatchedFleet, user: str) -> None:
        for words in lines:
            await fleet.command.ok(*(fill(word, {"USER": user}) for word in words))

    return do


def each(users: Iterable[str], action: Act) -> Act:
    """The same about several users."""

    async def do(fleet: WatchedFleet, _: str) -> None:
        for user in users:
            await action(fleet, user)

    return do


def both(*acts: Act) -> Act:
    """One after the other."""

    async def do(fleet: WatchedFleet, user: str) -> None:
        for act in acts:
            await act(fleet, user)

    return do


@asynccontextmanager
async def _turns(fleet: WatchedFleet, chain: Chain) -> AsyncIterator[None]:
    """Have the user talk to the agent meanwhile, where the chain says so."""

    async def talk() -> None:
        while True:
            # An agent whose provider refuses it tries again for minutes, and nobody waits for that.
            with suppress(TimeoutError):
                await fleet.command.run("instance", "chat", chain.user, "hello", *REASON, timeout_s=_TURN_S)
            await pause(1)

    if not chain.turns:
        yield
        return
    talking = [asyncio.create_task(talk()) for _ in range(2)]
    try:
        yield
    finally:
        await cancel(*talking)


def line(outcome: Outcome) -> str:
    """An outcome in a line."""
    seconds = " ".join("-" if figure is None else f"{figure:.0f}" for figure in outcome.seconds)
    verdict = "; ".join(outcome.wrong) or "well"
    return (
        f"{outcome.chain.fault}: {outcome.chain.alert or 'none'} {seconds} {outcome.beside} {outcome.repairs} {verdict}"
    )


def show(outcomes: Sequence[Outcome], not_had: Iterable[NotHad]) -> str:
    """The table, and what is not in it, with reasons."""
    columns = ("alert", "runbook", "drill", "to alert", "runbook s", "to end", "beside", "repairs", "found")
    table = Table(*columns, title="Faults of real machines; seconds")
    for outcome in outcomes:
        table.add_row(
            outcome.chain.alert or "none",
            outcome.runbook,
            outcome.chain.fault,
            *(
                f"{seconds:.0f}" if seconds is not None else "-"
                for seconds in (outcome.alert_s, outcome.runbook_s, outcome.resolved_s)
            ),
            " ".join(outcome.beside),
            " ".join(outcome.repairs),
            "; ".join(outcome.wrong) or "well",
        )
    for left in not_had:
        table.add_row(left.alert or "none", "-", left.fault or "-", "-", "-", "-", "", "", f"not had: {left.why}")
    console = Console(width=220, record=True)
    console.print(table)
    return console.export_text()
