"""Hosts of the registry: every instance that has a machine, grouped by cell, plan and status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin

from hermesops.errors import HermesError
from hermesops.machines.converge.inventory import INSTANCES, Host, hosts_of

if TYPE_CHECKING:
    from ansible.inventory.data import InventoryData
    from ansible.parsing.dataloader import DataLoader

DOCUMENTATION = """
name: registry
short_description: Hosts of the registry of hermesops
description:
    - Reads instances from the registry's database, without its key, and groups them by cell, plan and status.
    - Besides, or instead, takes a list of machines that the registry need not know.
author: hermesops
options:
    plugin:
        description: Always C(registry).
        required: true
        choices: [registry]
    url:
        description: SQLAlchemy URL of the registry, as C(sqlite:////home/ada/.hermesops/local/registry.db).
        type: string
        env:
            - name: HERMESOPS_REGISTRY_URL
    machines:
        description: More hosts, as a mapping of names to the vendor's machine ids.
        type: dict
        default: {}
"""

EXAMPLES = """
plugin: registry
url: sqlite:////home/ada/.hermesops/local/registry.db
---
plugin: registry
machines:
    candidate: 0b9f3a52-5d1c-4f0e-9c1b-2f6f1f4c7a10
"""


class InventoryModule(BaseInventoryPlugin):
    """Reads a YAML file that says C(plugin: registry)."""

    NAME = "registry"

    def verify_file(self, path: str) -> bool:
        """Whether the file may be one of ours; its content is looked at later."""
        return bool(super().verify_file(path)) and path.endswith((".yml", ".yaml"))

    def parse(self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True) -> None:  # noqa: FBT001, FBT002 - the signature is Ansible's
        """Fill the inventory."""
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        machines: dict[str, Any] = self.get_option("machines") or {}
        hosts = [Host(str(name), str(machine_id)) for name, machine_id in machines.items()]
        url = self.get_option("url")
        if url:
            hosts += _registered(url)
        elif not machines:
            raise AnsibleParserError(f"{path} names neither a registry nor machines; set url or HERMESOPS_REGISTRY_URL")
        self.inventory.add_group(INSTANCES)
        for host in hosts:
            self._add(host)

    def _add(self, host: Host) -> None:
        self.inventory.add_host(host.name)
        for name, value in {**host.variables, "ansible_toolbox_machine": host.machine_id}.items():
            self.inventory.set_variable(host.name, name, value)
        for group in host.groups:
            self.inventory.add_child(self.inventory.add_group(group), host.name)


def _registered(url: str) -> tuple[Host, ...]:
    # A third of a second to import, and a list of machines needs none of it.
    from hermesops.store.registry.audit.log import AuditLog  # noqa: PLC0415 - as above
    from hermesops.store.registry.database import Database  # noqa: PLC0415 - as above
    from hermesops.store.registry.repositories.base import WriteContext  # noqa: PLC0415 - as above
    from hermesops.store.registry.repositories.instances.instance import InstanceRepository  # noqa: PLC0415 - as above
    from hermesops.store.registry.schema import schema_version  # noqa: PLC0415 - as above

    database = Database(url)
    try:
        schema_version.require(database)
        desk = WriteContext(database, "", AuditLog(database, lambda: "ansible"), _NoKey())
        return hosts_of(InstanceRepository(desk).list())
    except HermesError as cause:
        # Without its cause: Ansible prints a chain of errors as one text, and this one says it all.
        raise AnsibleParserError(f"{cause.message}; {cause.hint}" if cause.hint else cause.message) from None
    finally:
        database.close()


class _NoKey:
    """Stands where the registry's key would; an inventory needs no secret."""

    key_ids: frozenset[str] = frozenset()
    current = ""
    source = "nowhere"

    def reload(self) -> None:
        """Find no other keys."""

    def seal(self, plain: str, *, place: str, key: str = "") -> str:
        """Refuse."""
        raise NotImplementedError(place)

    def mark(self, plain: str, *, place: str, key: str) -> str:
        """Refuse."""
        raise NotImplementedError(place)

    def unseal(self, sealed: str, *, place: str) -> str:
        """Refuse."""
        raise NotImplementedError(place)
