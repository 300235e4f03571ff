"""The worst or busiest instances by a figure of the platform's Prometheus."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.errors import HermesError
from hermesops.model.fleet import RecordedInstance
from hermesops.model.ids import CellName, InstanceId
from hermesops.model.instance import InstanceStatus
from hermesops.model.selector import Selector
from hermesops.observability.telemetry.figures import LABEL, TOP, Figure, now
from hermesops.observability.telemetry.metrics import Metrics

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
    """Orders instances by what Prometheus has of them.

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
            one.id: (cell.cell, one)
            for cell in self.registry.fleet.tally_cells()
            for one in cell.instances
            if selector.takes({"cell": cell.cell, "plan": one.plan, "status": one.status, "user": one.user})
        }
        metrics = Metrics(self.client())
        figures_by = (await metrics.by_label(now(by), LABEL)).values
        found = {InstanceId(one): value for one, value in figures_by.items() if one in known}
        chosen = sorted(found, key=lambda one: (-found[one], known[one][1].user))[:limit]
        others = [figure for figure in TOP if figure is not by]
        answers = await asyncio.gather(*(_figures(metrics, figure, chosen) for figure in others))
        figures = {by: found, **{figure: values for figure, (values, _) in zip(others, answers, strict=True)}}
        instances = (
            TopInstance(*known[one], {figure: figures[figure][one] for figure in TOP if one in figures[figure]})
            for one in chosen
        )
        running = (one for _, one in known.values() if one.status is InstanceStatus.RUNNING)
        without = sorted(one.user for one in running if one.id not in found)
        problems = dict.fromkeys(problem for _, problem in answers if problem)
        return Top(by, tuple(instances), tuple(without), tuple(problems))


async def _figures(
    metrics: Metrics, figure: Figure, instances: list[InstanceId]
) -> tuple[Mapping[InstanceId, float], str]:
    """A figure of some instances, and why it is not known."""
    if not instances:
        return {}, ""
    try:
        found = await metrics.by_label(now(figure, instances), LABEL)
    except HermesError as error:
        return {}, f"{figure} is not known: {error.message}"
    return {InstanceId(one): value for one, value in found.values.items()}, ""
