"""What a machine is handed to become a user's: the payload of hermes-node, and its digest. Pure."""

import hashlib

from hermesops.model.instance import Instance, InstanceSecrets, InstanceSettings
from hermesops.node import protocol


def payload_of(
    instance: Instance, settings: InstanceSettings, secrets: InstanceSecrets, *, model_base_url: str
) -> bytes:
    """The file that ``hermes-node personalise`` reads. It holds secrets: mode 0600, on a tmpfs, unlinked after use.

    Args:
        instance: Whose machine it will be.
        settings: What the user chose.
        secrets: The instance's keys.
        model_base_url: The model router as machines reach it.
    """
    return protocol.Payload(
        identity=protocol.Identity(
            instance=instance.id,
            user=instance.user_id,
            plan=instance.plan.value,
            cell=instance.cell,
            epoch=instance.epoch,
        ),
        secrets=protocol.Secrets(api_server_key=secrets.api_server_key, model_token=secrets.model_token),
        model_base_url=model_base_url,
        settings=protocol.Settings(
            model=settings.model,
            personality=settings.personality,
            messengers=settings.messengers,
            mcp_servers=settings.mcp_servers,
            cron=settings.cron,
            disabled_tools=settings.disabled_tools,
        ),
    ).to_json()


def digest_of(payload: bytes) -> str:
    """What hermes-node reports of the payload it was last handed; tells whether a machine has the current one."""
    return hashlib.sha256(payload).hexdigest()
