"""A registry with thousands of running instances in it, written at once: no command would."""

from datetime import timedelta

import sqlalchemy as sa

from hermesops.model.fleet.health import HEARTBEAT_S, GatewayHealth
from hermesops.model.ids import CellName, machine_name
from hermesops.model.operation import MONITOR_SUBJECT
from hermesops.store.registry import Registry
from hermesops.store.registry.encryption.sealing import place
from hermesops.store.registry.schema import tables
from tests.support.fleets.in_memory import AT, IMAGE, PER_CELL, ordered


def fill(registry: Registry, count: int, *, environment: str = "local") -> None:
    """Write ``count`` running instances in cells of forty."""
    desk = registry._context
    users, rows, details = [], [], []
    for number in range(count):
        instance = ordered(number).instance
        users.append({"id": instance.user_id, "alias": instance.user_alias, "created_at": AT})
        rows.append(
            {
                "id": instance.id,
                "user_id": instance.user_id,
                "plan": instance.plan,
                "vm_id": instance.machine_id,
                "status": instance.status,
                "created_at": AT,
            }
        )
        sealed = {
            column: desk.sealer.seal(plain, place=place("instance_details", column, instance.id))
            for column, plain in (("settings", "{}"), ("api_server_key", "k" * 43))
        }
        details.append(
            {
                "instance_id": instance.id,
                "cell": instance.cell,
                "machine_name": machine_name(environment, instance.cell, instance.id),
                "machine_wanted": True,
                "server_type": "starter",
                "region": "hel1",
                "image_id": IMAGE,
                "epoch": 1,
                "model_token_generation": 1,
                **sealed,
            }
        )
    cells = [CellName(f"cell{number + 1}") for number in range((count - 1) // PER_CELL + 1)]
    with desk.database.writing() as connection:
        connection.execute(tables.cells.insert(), [{"name": c, "region": "hel1", "created_at": AT} for c in cells])
        connection.execute(tables.users.insert(), users)
        connection.execute(tables.hermes_instances.insert(), rows)
        connection.execute(tables.instance_details.insert(), details)


def beat(registry: Registry, *, silent_every: int) -> None:
    """A heartbeat of each instance within the last half minute, read by a monitor; of some a gateway is silent.

    Args:
        silent_every: Of so many instances, the gateway of one does not answer.
    """
    now = registry.now()
    registry.leases.take(MONITOR_SUBJECT, "monitor", over="monitor")
    ids = [instance.id for cell in registry.fleet.tally_cells() for instance in cell.instances]
    beats = {id_: now - timedelta(seconds=number % HEARTBEAT_S + 0.25) for number, id_ in enumerate(ids)}
    registry.fleet.record_heartbeats(beats)
    details = tables.instance_details
    with registry._context.database.writing() as connection:
        connection.execute(details.update().values(reported_gateway=GatewayHealth.OK))
        which = sa.bindparam("which", type_=details.c.instance_id.type)
        silent = details.update().where(details.c.instance_id == which).values(reported_gateway=GatewayHealth.SILENT)
        connection.execute(silent, [{"which": id_} for id_ in ids[::silent_every]])
