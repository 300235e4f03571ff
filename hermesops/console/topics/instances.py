"""The list of instances, and each with its operations, backups and certificates."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from hermesops.console.actions import offers
from hermesops.console.paging import MOST, Page, number_of, pages_of
from hermesops.model.ids import InstanceId
from hermesops.views import operations as operation_shapes
from hermesops.views.access import certificates as certificate_shapes
from hermesops.views.agents import backups as backup_shapes
from hermesops.views.agents import instances as shapes

if TYPE_CHECKING:
    from hermesops.app.container import Container

_OPERATIONS = 20
"""Operations on the page of an instance."""

_NEWEST = 5
"""Backups and certificates on the page of an instance."""


def listed(container: "Container", name: str) -> Mapping[str, Any]:
    """A page of the instances that match a selector and a text.

    Args:
        name: Of the topic: ``where``, ``q`` and ``page``, as an address has them.

    Raises:
        UsageError: The selector cannot be read, or the page has no number.
    """
    query = {key: values[0] for key, values in parse_qs(name).items()}
    where, text, number = query.get("where", ""), query.get("q", ""), query.get("page", "1")
    instances, wanted, at = container.instance_list, number_of(number), container.now()
    selector = instances.selector(where)
    part = instances.part(selector, (wanted - 1) * MOST, MOST, text=text)
    pages = pages_of(len(part.ids))
    if wanted > pages:  # the list has become shorter
        wanted, part = pages, instances.part(selector, (pages - 1) * MOST, MOST, text=text)
    return {"page": vars(Page([shapes.listed(row, at) for row in part.rows], wanted, pages, len(part.ids)))}


def chosen(container: "Container", where: str, text: str) -> Sequence[InstanceId]:
    """The ids of all instances that match a selector and a text. Raises as ``listed``."""
    instances = container.instance_list
    return instances.part(instances.selector(where), 0, 0, text=text).ids


def shown(container: "Container", instance_id: str) -> Mapping[str, Any]:
    """One instance, as the registry has it.

    Raises:
        UsageError: There is none of that id.
    """
    instance, at = container.instances.get(InstanceId(instance_id)), container.now()
    certificates = container.machine_certificates.of_instance(instance)
    operations = container.operation_directory.of_instance(instance.id, _OPERATIONS)
    backups = container.backup_rows.list(instance)[:_NEWEST]
    row = container.instance_list.of(instance)
    unfinished = container.operation_directory.unfinished_of(instance.id)
    return {
        "instance": shapes.listed(row, at),
        "offered": offers.of_instance(instance, unfinished, row.health.condition if row.health else None),
        "operations": [operation_shapes.operation(row) for row in operations],
        "backups": [backup_shapes.backup(row, instance.title) for row in backups],
        "certificates": [certificate_shapes.certificate(instance.title, row, at) for row in certificates[:_NEWEST]],
    }
