"""The parts of a process that the internet reaches: rows of the users' half, and agents through the relay.

Two keys open what it needs: the ring that seals what users say, and the secret that proves Stripe's events. The
registry's key, tokens of machines and the vendor's key are no part of it.
"""

from functools import cached_property

from hermesops.app import parts
from hermesops.base.narration import Warn, warn
from hermesops.settings.environment import Environment


class UsersContainer:
    """The parts of the users' API outside the local world. Each is made when it is first asked for.

    Args:
        warn: Takes warnings, for the log.
    """

    def __init__(self, env: Environment, warn: Warn = warn) -> None:
        self.env = env
        self.warn = warn

    registry_place = cached_property(parts.registry.registry_place)
    secrets = cached_property(parts.access.secrets)
    user_rows = cached_property(parts.chat.user_rows)
    messages = cached_property(parts.chat.messages)
    accounts = cached_property(parts.chat.accounts)
    web_sessions = cached_property(parts.chat.web_sessions)
    chat_rows = cached_property(parts.chat.chat_rows)
    require_tables = parts.chat.require_tables
    relay_client = cached_property(parts.chat.relay_client)
    make_chat = parts.chat.chat
    make_agent_jobs = parts.chat.agent_jobs
    user_requests = cached_property(parts.users.user_requests)
    user_plans = cached_property(parts.users.user_plans)
    make_copied_settings = parts.users.copied_settings
    api_figures = cached_property(parts.users.api_figures)
    metered_sums = cached_property(parts.users.metered_sums)
    stripe_door = parts.users.stripe_door
