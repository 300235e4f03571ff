"""The container of the served console: it reads the registry by a role that sees no sealed column.

It is an environment without keys: a part that needs one is refused, as by the command line on such a computer.
"""

from functools import cached_property

from hermesops.agents.operator_requests.unreached import no_machine, no_vendor
from hermesops.app import parts
from hermesops.app.container import Container


class ConsoleContainer(Container):
    """The parts of the served console."""

    registry = cached_property(parts.console.readable_registry)
    monitoring = cached_property(parts.console.monitoring)
    operator_tokens = cached_property(parts.console.operator_tokens)
    operator_request_rows = cached_property(parts.console.operator_request_rows)
    issuer_client = cached_property(parts.console.issuer_client)
    own_model_provider = parts.console.unread_model_provider
    connect = no_machine
    vendor = no_vendor
