"""Whether machines can be reached at all: asks a few that do send heartbeats.

A machine that is silent by both ways is dead only where others answer by them. And while the toolbox or the proxy lets
nobody through, agents go on and every heartbeat is well, but no command reaches a machine: that is told as a source
that does not answer.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from hermesops.automation.monitor.facts import FleetFacts, suspicion
from hermesops.automation.monitor.metrics.heartbeats import Heartbeat
from hermesops.automation.monitor.sources import Source, Sources
from hermesops.base.fan_out import Limits, fan_out
from hermesops.base.waiting import cancel
from hermesops.errors import HermesError
from hermesops.model.fleet.health import Answer, Answers, GatewayHealth
from hermesops.model.ids import InstanceId

_AT_MOST = 3
"""How many machines are asked at once."""

_RANDOM = random.SystemRandom()

AskMachine = Callable[[InstanceId], Awaitable[Answers]]
"""Asks a machine by both ways; raises nothing of the vendor's."""

_ASKING = Limits(at_once=_AT_MOST, slow_after_s=15.0, within_s=30.0)


@dataclass(frozen=True, slots=True)
class Control:
    """A machine that sends heartbeats.

    Attributes:
        serves: Whether its gateway answered hermes-node; only then has the proxy something to answer with.
    """

    id: InstanceId
    serves: bool


def controls(facts: FleetFacts, beats: Mapping[InstanceId, Heartbeat]) -> Sequence[Control]:
    """Machines that nobody works on, some whose gateways serve where there are any.

    Chosen at random, so that no machine can make itself the only one asked.
    """
    if not facts.knows_heartbeats:
        return ()
    heard = [instance for instance in facts.instances if not instance.busy and instance.silence_s is not None]
    alive = [instance for instance in heard if not suspicion(instance, knows_heartbeats=True)]
    serving = {instance.id for instance in alive if beats.get(instance.id, Heartbeat()).gateway is GatewayHealth.OK}
    return draw([instance.id for instance in alive], serving)


def draw(alive: Sequence[InstanceId], serving: Collection[InstanceId]) -> Sequence[Control]:
    """A few of those that should answer, only such whose gateways serve where there are any."""
    among = [instance_id for instance_id in alive if instance_id in serving] or alive
    return [
        Control(instance_id, serves=instance_id in serving)
        for instance_id in _RANDOM.sample(among, min(_AT_MOST, len(among)))
    ]


def ways_that_answer(controls: Sequence[Control], answers: Sequence[Answers]) -> Mapping[Source, bool | None]:
    """Tell by the answers of control instances which sources work; ``None`` where that is undecided."""
    if not any(answer.machine for answer in answers):
        return {Source.JUSTAVPS: False if controls else None, Source.TOOLBOX: None, Source.PROXY: None}
    by_proxy = any(answer.proxy is Answer.YES for answer in answers)
    return {
        Source.JUSTAVPS: True,
        Source.TOOLBOX: any(answer.toolbox is Answer.YES for answer in answers),
        Source.PROXY: by_proxy if by_proxy or any(control.serves for control in controls) else None,
    }


async def ask_all(ask: AskMachine, whom: Sequence[InstanceId], limits: Limits) -> list[Answers]:
    """Ask machines by both ways; one that could not be asked in its time has told nothing."""
    results = await fan_out(whom, ask, limits)
    return [Answers("") if isinstance(result, HermesError) else result for result in results]


class Ways:
    """Tries the ways, and notes of each whether it lets somebody through."""

    def __init__(self, ask: AskMachine, sources: Sources) -> None:
        self._ask = ask
        self._sources = sources
        self._trial: asyncio.Task[object] | None = None
        self._failed: frozenset[Source] = frozenset()

    @property
    def are_doubtful(self) -> bool:
        """Whether one failed in the last trial: the next one should be soon."""
        return bool(self._failed)

    async def work(self, controls: Sequence[Control]) -> bool | None:
        """Whether both do; ``None`` where there was nobody to ask."""
        ways = await self._try(controls)
        return bool(ways[Source.TOOLBOX] and ways[Source.PROXY]) if controls else None

    def begin(self, controls: Sequence[Control]) -> None:
        """Try them, beside the caller's work, unless a trial is under way: a way may hang."""
        if self._trial is None or self._trial.done():
            self._trial = asyncio.create_task(self._try(controls))

    async def stop(self) -> None:
        """End a trial that is under way."""
        if self._trial is not None:
            await cancel(self._trial)

    async def _try(self, controls: Sequence[Control]) -> Mapping[Source, bool | None]:
        ways = ways_that_answer(controls, await ask_all(self._ask, [control.id for control in controls], _ASKING))
        for source, lets_through in ways.items():
            if lets_through:
                self._sources.up(source)
            elif lets_through is None:
                if source is not Source.JUSTAVPS:
                    self._sources.forget(source)
            elif source in self._failed:  # once may be three gateways that start anew
                self._sources.down(source, "of machines that send heartbeats none answered, twice")
        self._failed = frozenset(source for source, lets_through in ways.items() if lets_through is False)
        return ways
