"""The list of instances, and each with its operations, backups and certificates."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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


def listed(container: "Container", where: str) -> Mapping[str, Any]:
    """Instances that match a selector.

    Raises:
        UsageError: The selector cannot be read.
    """
    instances, at = container.instance_list, container.now()
    return {"instances": [shapes.listed(row, at) for row in instances.read(instances.selector(where))]}


def shown(container: "Container", instance_id: str) -> Mapping[str, Any]:
    """One instance, as the registry has it.

    Raises:
        UsageError: There is none of that id.
    """
    instance, at = container.instances.get(InstanceId(instance_id)), container.now()
    certificates = container.machine_certificates.of_instance(instance)
    operations = container.operation_directory.of_instance(instance.id, _OPERATIONS)
    backups = container.backup_rows.list(instance)[:_NEWEST]
    return {
        "instance": shapes.listed(container.instance_list.of(instance), at),
        "operations": [operation_shapes.operation(row) for row in operations],
        "backups": [backup_shapes.backup(row, instance.title) for row in backups],
        "certificates": [certificate_shapes.certificate(instance.title, row, at) for row in certificates[:_NEWEST]],
    }
