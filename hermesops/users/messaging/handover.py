"""The connector that machines are handed, so that their agents open sockets to it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from hermesops.model.ids import InstanceId
from hermesops.settings.sections import MessengerSettings
from hermesops.users.messaging.relay_secrets import derive
from hermesops.users.messaging.secrets import roots_in
from hermesops.wire.protocol import Connector


@dataclass(frozen=True)
class ConnectorHandover:
    """Makes the connector of each instance.

    Attributes:
        key: Text of ``connector.key``, read for each instance; ``None`` where the environment has none.
        generation: Of an instance's token for models, by which its secret changes.
    """

    settings: MessengerSettings
    key: Callable[[], str | None] = field(repr=False)
    generation: Callable[[InstanceId], int]

    def of_instance(self, instance_id: InstanceId) -> Connector | None:
        """The connector with the instance's present secret; ``None`` without a bot, a URL for machines or a key.

        Raises:
            UsageError: A key is short.
            RefusedError: The key is not to be read.
        """
        if not is_offered(self.settings) or (key := self.key()) is None:
            return None
        return connector_for(self.settings, roots_in(key)[0], instance_id, self.generation(instance_id))


def is_offered(settings: MessengerSettings) -> bool:
    """Whether agents open sockets: there are a bot, and a URL at which machines reach the connector. Pure."""
    return bool(settings.bots and settings.agents_url)


def connector_for(settings: MessengerSettings, root: bytes, instance_id: InstanceId, generation: int) -> Connector:
    """The connector of an instance. Pure.

    Args:
        root: The newest key in ``connector.key``.
    """
    bots = {messenger.value: name for messenger, name in settings.bots.items()}
    return Connector(settings.agents_url, derive(root, instance_id, generation), bots)
