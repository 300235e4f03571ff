"""Which variables belong to which messenger, and which of hermes-agent's adapters they need.

Pure. A variable that belongs to no messenger is refused: it could take the place of one of ours.

Source: ``plugins/platforms/*/plugin.yaml`` and ``gateway/config.py`` of hermes-agent 0.19.0.
"""

from collections.abc import Iterable

from hermesops.node.errors import BadRequestError

ADAPTER_OF = {
    "BLUEBUBBLES": None,
    "DINGTALK": "dingtalk-platform",
    "DISCORD": "discord-platform",
    "EMAIL": "email-platform",
    "FEISHU": "feishu-platform",
    "GATEWAY_ALLOW": None,
    "GOOGLE_CHAT": "google_chat-platform",
    "HASS": "homeassistant-platform",
    "IRC": "irc-platform",
    "LINE": "line-platform",
    "MATRIX": "matrix-platform",
    "MATTERMOST": "mattermost-platform",
    "NTFY": "ntfy-platform",
    "PHOTON": "photon-platform",
    "QQ": None,
    "RAFT": "raft-platform",
    "SIGNAL": None,
    "SIMPLEX": "simplex-platform",
    "SLACK": "slack-platform",
    "SMS": "sms-platform",
    "TEAMS": "teams-platform",
    "TELEGRAM": "telegram-platform",
    "TWILIO": "sms-platform",
    "WECOM": "wecom-platform",
    "WEIXIN": None,
    "WHATSAPP": "whatsapp-platform",
    "YUANBAO": None,
}
"""First words of a variable's name, and the adapter's manifest name; ``None`` where it is no plugin."""


def adapters_for(variables: Iterable[str]) -> frozenset[str]:
    """Manifest names of the adapters that these variables configure.

    Raises:
        BadRequestError: A name belongs to no messenger.
    """
    needed = set()
    for name in variables:
        words = [prefix for prefix in ADAPTER_OF if name.startswith(f"{prefix}_")]
        if not words:
            raise BadRequestError(f"settings.messengers.{name}: belongs to no messenger")
        adapter = ADAPTER_OF[max(words, key=len)]
        if adapter:
            needed.add(adapter)
    return frozenset(needed)


def platforms_of(variables: Iterable[str]) -> frozenset[str]:
    """The names under which the gateway reports the messengers that these variables configure."""
    return frozenset(adapter.removesuffix("-platform") for adapter in adapters_for(variables))
