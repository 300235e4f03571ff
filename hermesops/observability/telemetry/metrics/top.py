"""The worst or busiest instances by a figure of the platform's Prometheus."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.errors import HermesError
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.overview import RecordedInstance
from hermesops.model.fleet.selector import Selector
from hermesops.model.ids import CellName, InstanceId
from hermesops.observability.telemetry.metrics.figures import LABEL, TOP, Figure, now
from hermesops.observability.telemetry.metrics.prometheus import Metrics

if TYPE_CHECKING:
    from hermesops.observability.telemetry.client import MonitoringClient
    from hermesops.store.registry import Registry


@dataclass(frozen=True)
class TopInstance:
    """An instance with its figures; one that Prometheus does not have is absent."""

    cell: CellName
    instance: RecordedInstance
    figures: Mapping[Figure, float]


@dataclass(frozen=True)
class Top:
    """The instances with the highest figure.

    Attributes:
        by: The figure that orders them, the highest first.
        without: Users of instances that should run and of which Prometheus does not have it.
        problems: Why other figures are not known.
    """

    by: Figure
    instances: tuple[TopInstance, ...]
    without: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class FleetTop:
    """Orders instances by a figure of Prometheus.

    Attributes:
        client: Connects to the platform's monitoring; refuses where there is none.
    """

    registry: "Registry"
    client: "Callable[[], MonitoringClient]"

    async def read(self, by: Figure, *, limit: int, selector: Selector) -> Top:
        """Order instances by a figure; one query for it, and one for each other figure of those that are listed.

        Raises:
            UsageError: There is no monitoring here.
            RefusedError: Prometheus does not answer us.
            UnavailableError: It does not answer.
        """
        known = {
            instance.id: (cell.cell, instance)
            for cell in self.registry.fleet.tally_cells()
            for instance in cell.instances
            if selector.takes(
                {"cell": cell.cell, "plan": instance.plan, "status": instance.status, "user": instance.user}
            )
        }
        metrics = Metrics(self.client())
        figures_by = (await metrics.by_label(now(by), LABEL)).values
        of_known = {InstanceId(instance_id): value for instance_id, value in figures_by.items() if instance_id in known}
        chosen = sorted(of_known, key=lambda instance_id: (-of_known[instance_id], known[instance_id][1].user))[:limit]
        others = [figure for figure in TOP if figure is not by]
        answers = await asyncio.gather(*(_figures(metrics, figure, chosen) for figure in others))
        figures = {by: of_known, **{figure: values for figure, (values, _) in zip(others, answers, strict=True)}}
        instances = (
            TopInstance(
                *known[instance_id],
                {figure: figures[figure][instance_id] for figure in TOP if instance_id in figures[figure]},
            )
            for instance_id in chosen
        )
        running = (instance for _, instance in known.values() if instance.status is InstanceStatus.RUNNING)
        without = sorted(instance.user for instance in running if instance.id not in of_known)
        problems = dict.fromkeys(problem for _, problem in answers if problem)
        return Top(by, tuple(instances), tuple(without), tuple(problems))


async def _figures(
    metrics: Metrics, figure: Figure, instances: list[InstanceId]
) -> tuple[Mapping[InstanceId, float], str]:
    """A figure of some instances, and why it is not known."""
    if not instances:
        return {}, ""
    try:
        answer = await metrics.by_label(now(figure, instances), LABEL)
    except HermesError as error:
        return {}, f"{figure} is not known: {error.message}"
    return {InstanceId(instance_id): value for instance_id, value in answer.values.items()}, ""
