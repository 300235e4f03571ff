"""The container of one environment: settings in, parts out. Only faces import it.

Each part is made when it is first asked for, by a function of ``hermesops.app.parts``, which imports only what the part
needs. ``connect`` gives the parts that need connections.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from hermesops.app import parts
from hermesops.base.narration import Reporter, Warn, warn
from hermesops.settings.environment import Environment

if TYPE_CHECKING:
    from hermesops.agents.instances.requests.mass_changes import MassChanges
    from hermesops.agents.operator_requests.actions import RequestedAction
    from hermesops.app.connected import Connected
    from hermesops.app.platform import PlatformParts
    from hermesops.model.access.operator_request import OperatorRequest
    from hermesops.store.operations.kinds.agents import ApprovedList
    from hermesops.vendor.justavps import Client


class Container:
    """Everything of one environment.

    Args:
        report: Takes narration.
        warn: Takes warnings, for the log.
    """

    def __init__(self, env: Environment, report: Reporter, warn: Warn = warn) -> None:
        self.env = env
        self.report = report
        self.warn = warn
        self.find_operator_action: Callable[[Connected, OperatorRequest], RequestedAction | None] | None = None
        """Finds the action of a row of the served console; a face gives it, as its table stands above this package."""
        self.approved_list: ApprovedList | None = None
        """The signed list with which an operator terminates or resizes many instances."""

    def reopened(self) -> "Container":
        """A new container of this environment, with settings read again from their files."""
        container = Container(Environment.load(self.env.name, self.env.variables), self.report, self.warn)
        container.find_operator_action = self.find_operator_action
        return container

    # Connections

    @asynccontextmanager
    async def connect(self) -> AsyncIterator["Connected"]:
        """The parts that need connections to the vendor and to machines; closed at the end."""
        from hermesops.access.proxy_tokens.issue import ProxyTokens
        from hermesops.app.connected import Connected
        from hermesops.vendor.channel.agent import AgentApi
        from hermesops.vendor.justavps.proxy import ProxyClient

        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(self.vendor())
            connections = ProxyClient(self.endpoint.api_url, domain=self.env.settings.proxy_domain)
            proxy = await stack.enter_async_context(connections)
            yield Connected(self, client, AgentApi(proxy, ProxyTokens(client, self.registry)))

    @asynccontextmanager
    async def vendor(self) -> AsyncIterator["Client"]:
        """Connect to the vendor's API alone; no registry is needed."""
        from hermesops.vendor.justavps import Client

        async with Client(self.endpoint.api_url, self.endpoint.api_key) as client:
            yield client

    @asynccontextmanager
    async def platform(self) -> AsyncIterator["PlatformParts"]:
        """The platform of a local world; no registry is needed, which may be on a platform that is down."""
        from hermesops.app.platform import PlatformParts

        async with self.vendor() as client:
            yield PlatformParts(self, client)

    # Registry

    registry = cached_property(parts.registry.registry)
    registry_place = cached_property(parts.registry.registry_place)
    registry_copies = cached_property(parts.registry.registry_copies)
    registry_rebuild = cached_property(parts.drift.registry_rebuild)
    audit = cached_property(parts.registry.audit)
    contradictions = parts.registry.contradictions
    now = parts.registry.now
    acting_via = parts.registry.acting_via

    # Operations

    hold_lease = parts.operations.hold_lease
    make_operations = parts.operations.make_operations
    operation_directory = cached_property(parts.operations.directory)
    abandon = cached_property(parts.operations.abandon)

    # Access

    endpoint = cached_property(parts.access.endpoint)
    secrets = cached_property(parts.access.secrets)
    secret_changes = cached_property(parts.access.secret_changes)
    setting_audit = cached_property(parts.access.setting_audit)
    api_key_file = cached_property(parts.access.api_key_file)
    model_token_life = cached_property(parts.access.model_token_life)
    authority = cached_property(parts.access.authority)
    certificates = cached_property(parts.access.certificates)
    host_certificates = cached_property(parts.access.host_certificates)
    user_credentials = cached_property(parts.access.user_credentials)
    machine_certificates = cached_property(parts.access.machine_certificates)
    callers = cached_property(parts.access.callers)
    caller_directory = cached_property(parts.access.caller_directory)
    relay = cached_property(parts.access.relay)
    break_glass = cached_property(parts.access.break_glass)

    @property
    def router_keys(self) -> tuple[bytes, ...]:
        """Keys of agents' tokens for the model router, read anew each time: the first signs, all are accepted."""
        return parts.access.router_keys(self)

    @property
    def router_key(self) -> bytes:
        """The key that signs agents' tokens for the model router."""
        return self.router_keys[0]

    # Machines

    adapters = cached_property(parts.machines.adapters)
    base_variables = cached_property(parts.machines.base_variables)
    converger = cached_property(parts.machines.converger)
    agent_pins = cached_property(parts.machines.agent_pins)
    images = cached_property(parts.machines.images)
    image_recipes = cached_property(parts.machines.image_recipes)
    releases = cached_property(parts.machines.releases)
    release_key = cached_property(parts.machines.release_key)
    release_changes = cached_property(parts.machines.release_changes)
    prefetch = cached_property(parts.machines.prefetch)

    # Stacks

    engine = cached_property(parts.stacks.engine)
    platform_engine = cached_property(parts.stacks.platform_engine)
    pulumi_backend = cached_property(parts.stacks.pulumi_backend)
    pulumi_passphrase = parts.stacks.pulumi_passphrase
    state_opens = parts.stacks.state_opens
    programs = cached_property(parts.stacks.programs)
    baselines = cached_property(parts.stacks.baselines)
    saved_previews = cached_property(parts.stacks.saved_previews)
    platform_previews = cached_property(parts.stacks.platform_previews)
    platform_lease = parts.stacks.platform_lease
    aws_platform_stack = cached_property(parts.stacks.aws_platform_stack)
    world_purge = cached_property(parts.stacks.world_purge)

    # Cells

    cells = cached_property(parts.cells.cells)
    choose_cells = parts.cells.choose_cells
    cell_stacks = cached_property(parts.cells.cell_stacks)
    cell_states = cached_property(parts.cells.cell_states)
    guards = cached_property(parts.cells.guards)
    stack_ups = cached_property(parts.cells.stack_ups)
    read_costs = cached_property(parts.cells.read_costs)
    pool_machines = cached_property(parts.cells.pool_machines)
    pool_previews = cached_property(parts.cells.pool_previews)

    # Instances

    instances = cached_property(parts.instances.instances)
    instance_list = cached_property(parts.instances.instance_list)
    instance_policies = cached_property(parts.instances.policies)
    masked_settings = cached_property(parts.instances.masked_settings)
    model_providers = cached_property(parts.instances.model_providers)
    instance_report = parts.instances.instance_report
    own_model_provider = parts.instances.own_model_provider
    termination_policy = cached_property(parts.instances.termination_policy)
    token_directory = cached_property(parts.instances.token_directory)
    model_token_revocation = cached_property(parts.instances.model_token_revocation)

    @property
    def mass_changes(self) -> "MassChanges":
        """Limits how many instances are terminated or resized a day; by ``approved_list`` as it is now."""
        return parts.instances.mass_changes(self)

    # Backups

    backup_store = cached_property(parts.backups.backup_store)
    backup_rows = cached_property(parts.backups.backup_rows)
    stored_records = cached_property(parts.backups.stored_records)
    recovery_records = cached_property(parts.backups.recovery_records)

    # Rollouts

    rollouts = cached_property(parts.rollouts.directory)
    rollout_commands = cached_property(parts.rollouts.commands)
    rollout_requests = cached_property(parts.rollouts.requests)
    rollout_losses = cached_property(parts.rollouts.losses)
    rollbacks = cached_property(parts.rollouts.rollbacks)
    freezes = cached_property(parts.rollouts.freezes)
    outdated = cached_property(parts.rollouts.outdated)

    # The fleet

    fleet = cached_property(parts.fleet.fleet)
    fleet_observation = cached_property(parts.fleet.fleet_observation)
    fleet_top = cached_property(parts.fleet.fleet_top)
    timelines = cached_property(parts.drift.timelines)
    read_happenings = cached_property(parts.drift.read_happenings)
    orphan_repairs = cached_property(parts.drift.orphan_repairs)

    # Monitoring

    monitoring = cached_property(parts.monitoring.monitoring)
    monitoring_client = parts.monitoring.monitoring_client
    require_monitoring = parts.monitoring.require_monitoring
    monitor_lead = cached_property(parts.monitoring.monitor_lead)
    alerts = parts.monitoring.alerts
    operator_links = cached_property(parts.console.operator_links)

    # Users

    billing_events = cached_property(parts.users.billing_events)
    model_usage = cached_property(parts.users.model_usage)
    stripe_door = parts.users.stripe_door
    messenger_accounts = cached_property(parts.messaging.messenger_accounts)
    incoming_messages = cached_property(parts.messaging.incoming_messages)
    outgoing_messages = cached_property(parts.messaging.outgoing_messages)
    agent_files = cached_property(parts.messaging.agent_files)
    messenger_settings = cached_property(parts.messaging.messenger_settings)
    message_directory = cached_property(parts.messaging.message_directory)
    make_bots = parts.messaging.bots
    link_addresses = cached_property(parts.messaging.link_addresses)
    messenger_links = parts.messaging.messenger_links
    message_bell = parts.messaging.message_bell
    telegram_door = parts.messaging.telegram_door
    slack_door = parts.messaging.slack_door
    whatsapp_door = parts.messaging.whatsapp_door
    discord_door = parts.messaging.discord_door
    connector_handover = cached_property(parts.messaging.connector_handover)
    billing_policy = cached_property(parts.users.billing_policy)
    user_requests = cached_property(parts.users.user_requests)
    user_plans = cached_property(parts.users.user_plans)
    plan_statements = cached_property(parts.users.plan_statements)
    make_copied_settings = parts.users.copied_settings
    settings_copying = cached_property(parts.users.settings_copying)
    metering_policy = cached_property(parts.users.metering_policy)
    metering = cached_property(parts.users.metering)
    api_status = cached_property(parts.users.api_status)
    api_figures = cached_property(parts.users.api_figures)
    metered_sums = cached_property(parts.users.metered_sums)
    request_directory = cached_property(parts.users.request_directory)
    calling_agents = cached_property(parts.users.calling_agents)
    user_directory = cached_property(parts.users.user_directory)
    connection_project = parts.connections.connection_project
    make_connections = parts.connections.connections
    make_agent_calls = parts.connections.agent_calls

    user_rows = cached_property(parts.chat.user_rows)
    messages = cached_property(parts.chat.messages)
    accounts = cached_property(parts.chat.accounts)
    web_sessions = cached_property(parts.chat.web_sessions)
    chat_rows = cached_property(parts.chat.chat_rows)
    make_chat = parts.chat.chat
    calling_rows = cached_property(parts.chat.calling_rows)
    make_callers = parts.chat.callers
    make_agent_jobs = parts.chat.agent_jobs

    # Automation

    checks = cached_property(parts.automation.checks)
    jobs_without_connection = parts.automation.jobs_without_connection
    runbook_records = cached_property(parts.automation.runbook_records)
    runbook_drills = cached_property(parts.automation.runbook_drills)
