"""The health of instances for rollouts: asks nodes and Prometheus."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from hermesops.agents.health.canary_watch import CanaryWatch
from hermesops.agents.health.prometheus import Prometheus
from hermesops.agents.health.samples.kept import StoredHealthSamples
from hermesops.agents.health.samples.sample import figures_of, lasting_of
from hermesops.agents.health.samples.sampler import Sampler
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.rollout.machines.slots import machine_of
from hermesops.agents.rollout.ports import Comparison, HealthObservation, MessageComparison
from hermesops.model.fleet.vitals import ChangeSpan, Vital
from hermesops.model.ids import InstanceId
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.registry import Registry
from hermesops.vendor.channel import Channel

_ANSWER_TIMEOUT = timedelta(minutes=3)
"""That an agent has for the answer to a message before the message counts; a turn takes seconds, a long one minutes."""

_MOST_CONTROLS = 256
"""Untouched agents whose messages are counted: those next to be changed."""


class RolloutHealth:
    """The health of instances during a rollout.

    Args:
        prometheus: ``None`` for none.
        now: The present moment, by the clock that also says when each instance was changed.
    """

    def __init__(
        self,
        registry: Registry,
        instance_client: PowerControl,
        prometheus: Prometheus | None,
        now: Callable[[], datetime],
    ) -> None:
        self._registry = registry
        self._instance_client = instance_client
        self._prometheus = prometheus
        self._sampler = Sampler(self._open_channel, now)
        self._watcher = CanaryWatch(self._sampler, StoredHealthSamples(registry), now, self._prometheus)

    async def require(self, vitals: Sequence[str]) -> None:
        """Refuse vitals whose metric Prometheus lacks; nodes always have their own vitals.

        Raises:
            RefusedError: A gate on it would never pass.
            UnavailableError: It does not answer.
        """
        for vital in Vital:
            if self._prometheus and vital.value in vitals:
                await self._prometheus.require_vital(vital)

    async def watch(
        self, changed: Mapping[InstanceId, ChangeSpan], untouched: Sequence[InstanceId], vitals: Sequence[str]
    ) -> HealthObservation:
        """Observe changed and untouched instances; those without an answer yet are absent.

        Args:
            untouched: Those next to be changed come first.
        """
        watched = await self._watcher.watch(changed, untouched)
        messages = await in_db_thread(self._messages, changed, untouched) if changed else None
        return HealthObservation(
            messages=messages,
            liveness_of=watched.liveness_of,
            comparisons=tuple(
                Comparison(
                    each,
                    figures_of(each, watched.changed),
                    figures_of(each, watched.controls),
                    lasting_of(each, watched.changed),
                )
                for each in Vital
                if each.value in vitals
            ),
        )

    def _messages(self, changed: Mapping[InstanceId, ChangeSpan], untouched: Sequence[InstanceId]) -> MessageComparison:
        """Answers of changed agents, each since its change, and of untouched ones since the first change."""
        first = min(span.ended for span in changed.values())
        read = partial(self._registry.messages.exchanges, timeout=_ANSWER_TIMEOUT)
        return MessageComparison(
            read({instance_id: span.ended for instance_id, span in changed.items()}),
            read(dict.fromkeys(untouched[:_MOST_CONTROLS], first)),
        )

    async def stop(self) -> None:
        """Cancel the health samples that are being taken."""
        await self._sampler.stop()

    async def _open_channel(self, instance_id: InstanceId) -> Channel:
        instance = await in_db_thread(self._registry.instances.get, instance_id)
        return self._instance_client.channel(machine_of(instance))
