"""Instances: requests, clients of their machines, tokens, snapshots and upkeep."""

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermesops.agents.health.instance_list import InstanceList
    from hermesops.agents.health.instance_reports import InstanceReport, InstanceReports
    from hermesops.agents.health.instance_waits import InstanceWaits
    from hermesops.agents.instances.credentials.token_directory import TokenDirectory
    from hermesops.agents.instances.credentials.tokens import ModelTokenRevocation, ModelTokens, ProxyTokens
    from hermesops.agents.instances.directory import Instances
    from hermesops.agents.instances.preview.service import AgentPreviews, ChangePreviews
    from hermesops.agents.instances.remote.operator_access import OperatorAccess
    from hermesops.agents.instances.remote.power_control import PowerControl
    from hermesops.agents.instances.remote.state_comparison import StateComparisons
    from hermesops.agents.instances.requests.bulk import BulkProvision
    from hermesops.agents.instances.requests.changes import InstanceRequests
    from hermesops.agents.instances.requests.expiry import Upkeep
    from hermesops.agents.instances.requests.mass_changes import MassChanges
    from hermesops.agents.instances.requests.opening import OperationOpener
    from hermesops.agents.instances.requests.placement import MachinePlacement
    from hermesops.agents.instances.requests.provision import Policy, ProvisionAdmission, ProvisionPreflight
    from hermesops.agents.instances.requests.snapshots import Snapshots
    from hermesops.agents.instances.requests.termination import TerminationPolicy
    from hermesops.agents.instances.settings.masked import MaskedSettings
    from hermesops.agents.instances.settings.policies import InstancePolicies
    from hermesops.agents.model_providers.service import ModelProviders
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.errors import HermesError
    from hermesops.model.fleet.instance import Instance
    from hermesops.model.providers.choice import ProviderChoice


def instances(container: "Container") -> "Instances":
    """Finds instances by user id, alias or instance id."""
    from hermesops.agents.instances.directory import Instances

    return Instances(container.registry)


def instance_list(container: "Container") -> "InstanceList":
    """Lists instances with their health and releases."""
    from hermesops.agents.health.instance_list import InstanceList

    return InstanceList(container.registry)


def policies(container: "Container") -> "InstancePolicies":
    """Changes instances' policies for rollouts, with an audit entry for each."""
    from hermesops.agents.instances.settings.policies import InstancePolicies

    return InstancePolicies(container.registry)


def masked_settings(container: "Container") -> "MaskedSettings":
    """Reads instances' settings without their secrets."""
    from hermesops.agents.instances.settings.masked import MaskedSettings

    return MaskedSettings(container.registry)


def model_providers(container: "Container") -> "ModelProviders":
    """Checks users' own model providers, and asks them about keys."""
    from hermesops.agents.model_providers.service import ModelProviders
    from hermesops.base.network.public_hosts import internet
    from hermesops.vendor.model_providers.client import ModelProviderClient

    def world_address() -> str:
        return container.endpoint.model_provider_url if container.env.is_local else ""

    return ModelProviders(container.registry, ModelProviderClient(internet(), world_address), container.report)


def mass_changes(container: "Container") -> "MassChanges":
    """Limits how many instances are terminated or resized a day."""
    from hermesops.agents.instances.requests.mass_changes import MassChanges

    return MassChanges(container.env, container.registry, container.approved_list)


def termination_policy(container: "Container") -> "TerminationPolicy":
    """Days of grace, and whether a last backup is required."""
    from hermesops.agents.instances.requests.termination import TerminationPolicy

    settings = container.env.settings
    return TerminationPolicy(timedelta(days=settings.grace_days), settings.last_backup == "required")


def instance_client(connected: "Connected") -> "PowerControl":
    """Reaches a machine, its hermes-node and its gateway, and stops and starts them."""
    from hermesops.agents.instances.remote.certificates import Certifying
    from hermesops.agents.instances.remote.power_control import PowerControl

    container = connected.container
    endpoint, certificates = container.endpoint, container.certificates
    return PowerControl(
        registry=container.registry,
        vendor=connected.client,
        keys=connected.instance_keys,
        agents=connected.agents,
        router_url=endpoint.router_url,
        gateway_timeout_s=container.env.settings.gateway_timeout_s,
        report=container.report,
        certifying=Certifying(certificates) if certificates.url else None,
        connector_of=container.connector_handover.of_instance,
    )


def admission(connected: "Connected") -> "ProvisionAdmission":
    """Checks requests to provision instances and writes their rows."""
    from hermesops.agents.instances.requests.provision import ProvisionAdmission

    registry = connected.container.registry
    return ProvisionAdmission(registry, connected.preflight, connected.pools, provision_policy(connected.container))


def bulk_provision(connected: "Connected") -> "BulkProvision":
    """Provisions many users from a list, a few at a time."""
    from hermesops.agents.instances.requests.bulk import BulkProvision

    container = connected.container
    at_once, policy = container.env.settings.parallel_provisions, provision_policy(container)
    return BulkProvision(connected.admission, connected.preflight, policy, at_once, container.report)


def preflight(connected: "Connected") -> "ProvisionPreflight":
    """Checks before machines are rented; without a router key nothing is rented."""
    from hermesops.agents.instances.requests.provision import ProvisionPreflight

    container = connected.container
    connected.instance_keys.router_key()
    policy = provision_policy(container)
    return ProvisionPreflight(container.registry, connected.instance_client, container.guards, policy)


def provision_policy(container: "Container") -> "Policy":
    """Settings for new instances: image, regions, server types and sizes of cells."""
    from hermesops.agents.instances.requests.provision import Policy

    settings = container.env.settings
    return Policy(
        settings.image,
        settings.region,
        settings.server_types,
        settings.cell_size,
        settings.plan_regions,
        settings.plans_apart,
    )


def instance_requests(connected: "Connected") -> "InstanceRequests":
    """Opens operations that change an instance's state, size or machine."""
    from hermesops.agents.instances.requests.changes import InstanceRequests, Policy
    from hermesops.store.operations.kinds.agents import Keep

    container, client = connected.container, connected.instance_client
    settings = container.env.settings
    policy = Policy(
        settings.server_types,
        settings.data_gb,
        container.termination_policy.grace,
        Keep(settings.suspended_machines),
        keeps_previous=settings.previous_days > 0,
    )
    return InstanceRequests(
        container.registry,
        client,
        connected.backups.copies(client),
        connected.placement,
        policy,
        connected.opener,
        admit=container.mass_changes.admit,
    )


def opener(connected: "Connected") -> "OperationOpener":
    """Opens operations of instances under their lease, with the audit entry."""
    container = connected.container
    if connected.is_dry_run:
        from hermesops.agents.instances.preview.opening import DryRunOpener, unless_held

        return DryRunOpener(container.registry, partial(unless_held, container.registry))
    from hermesops.agents.instances.requests.opening import OperationOpener

    return OperationOpener(container.registry, container.hold_lease)


def change_previews(connected: "Connected") -> "ChangePreviews":
    """Previews operations that a dry run opened."""
    from hermesops.agents.instances.preview.service import ChangePreviews

    container = connected.container
    handlers, previous_days = connected.dry_run().handlers(), container.env.settings.previous_days
    return ChangePreviews(container.registry, handlers, connected.instance_client, connected.client, previous_days)


def agent_previews(connected: "Connected") -> "AgentPreviews":
    """Previews requests to provision instances, with every check and no write."""
    from hermesops.agents.instances.preview.service import AgentPreviews

    container = connected.container
    policy, claim = provision_policy(container), connected.pools.next_claim
    return AgentPreviews(container.registry, connected.preflight, policy, claim, connected.change_previews)


def placement(connected: "Connected") -> "MachinePlacement":
    """Places and images of instances' machines."""
    from hermesops.agents.instances.requests.placement import MachinePlacement

    settings = connected.container.env.settings
    registry = connected.container.registry
    return MachinePlacement(registry, settings.image, settings.cell_size, settings.plans_apart)


def upkeep(connected: "Connected") -> "Upkeep":
    """Terminates agents after their days of grace, and returns machines that instances left."""
    from hermesops.agents.instances.requests.expiry import Upkeep, terminator

    container = connected.container
    keeps_backup = container.termination_policy.requires_backup
    end = terminator(lambda: connected.instance_requests, connected.operations.run, keeps_backup=keeps_backup)
    days = timedelta(days=container.env.settings.previous_days)
    return Upkeep(container.registry, container.cell_stacks, end, days)


def snapshots(connected: "Connected") -> "Snapshots":
    """The vendor's images of single instances."""
    from hermesops.agents.instances.requests.snapshots import Snapshots

    container = connected.container
    return Snapshots(
        container.env.name,
        container.registry,
        connected.client,
        connected.opener,
        container.hold_lease,
        container.report,
    )


def instance_reports(connected: "Connected") -> "InstanceReports":
    """Reads everything known about one instance, for ``instance show``."""
    from hermesops.agents.cells.cost.prices import list_price
    from hermesops.agents.health.instance_reports import InstanceReports

    container, price = connected.container, partial(list_price, connected.client)
    return InstanceReports(
        container.registry,
        connected.instance_client.observe,
        container.monitoring_client,
        container.alerts,
        price,
        container.own_model_provider,
    )


def own_model_provider(container: "Container", instance: "Instance") -> "ProviderChoice | None":
    """An instance's own model provider without its key; ``None`` for the platform's models."""
    return container.model_providers.of(instance)


async def instance_report(container: "Container", instance: "Instance") -> "InstanceReport":
    """Everything known about one instance; where JustAVPS cannot even be addressed, all that the registry knows."""
    from hermesops.errors import UnavailableError

    try:
        async with container.connect() as connected:
            return await connected.instance_reports.of(instance)
    except UnavailableError as error:
        return await _reports_without_vendor(container, error).of(instance)


def _reports_without_vendor(container: "Container", problem: "HermesError") -> "InstanceReports":
    from hermesops.agents.health.instance_reports import InstanceReports, unanswered

    unknown = unanswered(problem)
    client, alerts, provider = container.monitoring_client, container.alerts, container.own_model_provider
    return InstanceReports(container.registry, unknown, client, alerts, unknown, provider)


def instance_waits(connected: "Connected") -> "InstanceWaits":
    """Waits until instances reach a state, for ``hermesops wait``."""
    from hermesops.agents.health.instance_waits import InstanceWaits

    container = connected.container
    return InstanceWaits(container.registry, connected.instance_client.observe, container.report)


def state_comparisons(connected: "Connected") -> "StateComparisons":
    """Compares instances' states with their backups."""
    from hermesops.agents.instances.remote.state_comparison import StateComparisons

    return StateComparisons(connected.container.registry, connected.instance_client)


def operator_access(connected: "Connected") -> "OperatorAccess":
    """Accesses agents and machines for operators, with audited reasons."""
    from hermesops.agents.instances.remote.operator_access import OperatorAccess

    return OperatorAccess(connected.container.registry, connected.instance_client)


def proxy_tokens(connected: "Connected") -> "ProxyTokens":
    """Issues the tokens of the vendor's proxy that open instances' machines."""
    from hermesops.agents.instances.credentials.tokens import ProxyTokens

    return ProxyTokens(connected.container.registry, connected.client, connected.agents)


def model_tokens(connected: "Connected") -> "ModelTokens":
    """Agents' tokens for the model router."""
    from hermesops.agents.instances.credentials.tokens import ModelTokens
    from hermesops.users.billing.model_usage import budgets_of

    container = connected.container
    budgets, life = budgets_of(container.env.settings.model), container.model_token_life
    return ModelTokens(container.registry, connected.instance_client, container.hold_lease, life, budgets)


def token_directory(container: "Container") -> "TokenDirectory":
    """Finds tokens in use in the registry."""
    from hermesops.agents.instances.credentials.token_directory import TokenDirectory

    return TokenDirectory(container.registry)


def model_token_revocation(container: "Container") -> "ModelTokenRevocation":
    """Revokes agents' tokens for the model router; connects only to hand an agent another."""
    from hermesops.agents.instances.credentials.tokens import ModelTokenRevocation

    async def hand(instance: "Instance") -> None:
        async with container.connect() as connected:
            await connected.model_tokens.hand(instance)

    return ModelTokenRevocation(container.registry, hand)
