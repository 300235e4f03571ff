"""Shapes of break-glass orders: SSH to a machine whose toolbox and proxy are gone."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.model.access.break_glass import BreakGlass
    from hermesops.model.fleet.instance import Instance


def order(opened: "BreakGlass", address: str, command: str) -> dict[str, object]:
    """An open order, and the command of OpenSSH that uses it."""
    return {
        "order": opened.id,
        "address": address,
        "host_key": opened.host_key,
        "source": opened.source,
        "expires_at": opened.expires_at,
        "command": command,
    }


def session(opened: "BreakGlass", code: int, stdout: str, stderr: str) -> dict[str, object]:
    """A session that has ended, with its output."""
    return {"order": opened.id, "exit_code": code, "stdout": stdout, "stderr": stderr}


def closed(instance: "Instance", ended: "Sequence[BreakGlass]") -> dict[str, object]:
    """The orders of an instance that were ended."""
    return {"user": instance.title, "orders": [order.id for order in ended]}
