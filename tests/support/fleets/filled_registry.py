"""A registry with thousands of running instances in it, written at once: no command would."""

from hermesops.model.ids import CellName, machine_name
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
