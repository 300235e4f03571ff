"""``databases``: check the agent's databases, which takes a while; and the part of the metrics that reports on them.

The check reads every page as the agent's own user, once an hour, by a unit of its own. Sizes are asked at each run.
"""

import json
from collections.abc import Iterator
from typing import Any

from hermesops.programs.node.instance import volume
from hermesops.programs.node.instance.agent import installation
from hermesops.programs.node.instance.agent.installation import agent_of
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.metrics.exposition import Sample
from hermesops.programs.node.system.files import PRIVATE
from hermesops.wire import strict_json
from hermesops.wire.state.contents import AGENTS_OWN

_COUNTS_S = 3 * 3600.0
"""Seconds for which a check is shown: three of them."""

_LOG_ENDING = "-wal"


def check(machine: Machine) -> dict[str, Any]:
    """Check the databases of a user's agent, running or not, and store the result for ``metrics``.

    Nothing is checked, and the old result stays, while the state is being replaced or not mounted.

    Raises:
        NotReadyError: The check did not end in time.
    """
    layout, files = machine.layout, machine.files
    in_change = any(files.read(path) is not None for path in (layout.restoring, layout.activation))
    if files.read(layout.identity) is None or in_change or volume.is_closed(machine):
        return {"intact": None}
    intact = machine.state.check_databases(agent_of(machine).home)
    data = json.dumps({"at": machine.system.now(), "intact": intact}, sort_keys=True).encode()
    files.write_if_changed(layout.database_check, data, PRIVATE)
    return {"intact": intact}


def read(machine: Machine, _counters: dict[str, Any]) -> Iterator[Sample]:
    """Size and, from the last check, integrity of each database."""
    if machine.files.read(machine.layout.identity) is None or volume.is_closed(machine):
        return
    base = installation.load_base(machine.files, machine.layout.base)
    intact = _last_check(machine)
    with machine.files.opened_folder(machine.layout.home(base.home)) as home:
        for name in sorted(database.decode() for database in AGENTS_OWN):
            size = machine.files.size(home, name)
            if size is None:
                continue
            labels = {"database": name.removesuffix(".db").replace("/", "_")}
            log = machine.files.size(home, f"{name}{_LOG_ENDING}") or 0
            yield Sample("hermes_database_bytes", size + log, labels)
            if isinstance(intact.get(name), bool):
                yield Sample("hermes_database_integrity", intact[name], labels)


def _last_check(machine: Machine) -> dict[str, Any]:
    """The databases that the last check found undamaged; none if it is old, or from before this boot."""
    data = machine.files.read(machine.layout.database_check)
    if data is None:
        return {}
    raw = strict_json.parse_object(data)
    age_s = machine.system.now() - float(raw["at"])
    return dict(raw["intact"]) if 0 <= age_s <= _COUNTS_S else {}
