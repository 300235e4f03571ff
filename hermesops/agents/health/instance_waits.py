"""Waits until instances are in a state: a status of the registry, or a health for which machine and agent are asked."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from hermesops.agents.health.fleet import observed_health
from hermesops.agents.instances.observation import Observation
from hermesops.base import waiting
from hermesops.base.fan_out import attempt, held_for
from hermesops.errors import HermesError
from hermesops.model.fleet.health import Condition
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.store.registry import Registry

State = Condition | InstanceStatus

_ASK_S = 15.0
"""Seconds in which machine and agent have to answer; after that the health is unknown, and they are asked again."""

_AT_ONCE = 32
_NAMED = 5
"""Instances named in a line of narration."""


@dataclass(frozen=True)
class Waited:
    """The last state of one instance that was waited for.

    Attributes:
        detail: Why it is in that state; empty where nothing says.
        waited_s: Until it was reached, could not be reached any more, or time was up.
    """

    instance: Instance
    state: str
    detail: str
    is_reached: bool
    waited_s: float

    @property
    def is_impossible(self) -> bool:
        """Whether it will never be reached: the instance is terminated."""
        return not self.is_reached and self.state == InstanceStatus.TERMINATED


@dataclass(frozen=True)
class InstanceWaits:
    """Waits for instances of one environment.

    Attributes:
        observe: Asks an instance's machine and agent; used for health alone.
        report: Takes a line of narration, every ``report_every_s`` at most.
    """

    registry: Registry
    observe: Callable[[InstanceId], Awaitable[Observation]]
    report: Callable[[str], None]
    every_s: float = 1.0
    report_every_s: float = 10.0

    async def until(self, instances: Sequence[Instance], state: State, timeout_s: float) -> tuple[Waited, ...]:
        """Wait until each is in that state or terminated, or the time is up; one that hangs delays no other."""
        run = _Run(self, state)
        tasks = [asyncio.ensure_future(run.follow(instance)) for instance in instances]
        narration = asyncio.ensure_future(run.narrate(instances, timeout_s))
        try:
            await asyncio.wait(tasks, timeout=timeout_s)
            for task in tasks:
                if task.done():
                    task.result()  # a bug, or a registry that is gone
        finally:
            await waiting.cancel(narration, *tasks)
        return tuple(run.last(instance) for instance in instances)

    async def state_of(self, instance_id: InstanceId, state: State) -> tuple[str, str]:
        """The state of an instance now, and why, as far as it has to be known to wait for another one."""
        instance = self.registry.instances.get(instance_id)
        if isinstance(state, InstanceStatus) or instance.status is not InstanceStatus.RUNNING:
            return instance.status.value, ""
        observation = await attempt(self.observe, instance_id, _ASK_S)
        if isinstance(observation, HermesError):
            return Condition.UNKNOWN.value, observation.message
        health = observed_health(self.registry, observation)
        return (health.condition.value, health.reasons[0]) if health else (observation.instance.status.value, "")


@dataclass
class _Run:
    """One wait: the last state of each instance."""

    waits: InstanceWaits
    state: State
    began: float = field(default_factory=time.monotonic)
    states: dict[InstanceId, Waited] = field(default_factory=dict)
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def follow(self, instance: Instance) -> None:
        while True:
            async with held_for(self.places, self.waits.every_s):
                state, detail = await self.waits.state_of(instance.id, self.state)
            waited = self._waited(instance, state, detail)
            self.states[instance.id] = waited
            if waited.is_reached or waited.is_impossible:
                return
            await waiting.pause(self.waits.every_s)

    def last(self, instance: Instance) -> Waited:
        """The last known state; one that never answered is unknown."""
        last = self.states.get(instance.id)
        if last and (last.is_reached or last.is_impossible):
            return last
        state, detail = (last.state, last.detail) if last else (Condition.UNKNOWN.value, "no answer yet")
        return self._waited(instance, state, detail)

    def _waited(self, instance: Instance, state: str, detail: str) -> Waited:
        return Waited(instance, state, detail, state == self.state, time.monotonic() - self.began)

    async def narrate(self, instances: Sequence[Instance], timeout_s: float) -> None:
        await waiting.pause(min(self.waits.every_s, self.waits.report_every_s))  # what is so at once needs no words
        while True:
            left = [waited for waited in map(self.last, instances) if not waited.is_reached]
            waited = time.monotonic() - self.began
            states = _words(left, len(instances))
            self.waits.report(f"waiting for {self.state}: {states} ({waited:.0f} of {timeout_s:g} s)")
            await waiting.pause(self.waits.report_every_s)


def _words(left: Sequence[Waited], count: int) -> str:
    named = ", ".join(f"{waited.instance.title} is {waited.state}" for waited in left[:_NAMED])
    more = f" +{len(left) - _NAMED}" if len(left) > _NAMED else ""
    done = f"{count - len(left)} of {count} reached; " if count > 1 else ""
    return f"{done}{named}{more}"
