"""Checks that registry and vendor answer and that each secret works.

Parts are opened by the check that needs them, so that one that does not open fails that check and no other.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import gettempdir

from hermesops.access.registry_place import RegistryPlace
from hermesops.access.secrets.catalog import (
    API_KEY,
    AUTHORITY_KEY,
    BACKUP_KEY,
    BILLING_KEY,
    BILLING_SECRET,
    CATALOG,
    CONNECTIONS_KEY,
    CONNECTOR_KEY,
    DATABASE_KEY,
    DISCORD_TOKEN,
    MESSAGES_KEY,
    PROVIDERS_KEY,
    PULUMI_PASSPHRASE,
    REGISTRY_KEY,
    RELEASE_KEY,
    ROUTER_KEY,
    SLACK_SECRET,
    SLACK_TOKEN,
    TELEGRAM_SECRET,
    TELEGRAM_TOKEN,
    WHATSAPP_KEY,
    WHATSAPP_SECRET,
    WHATSAPP_TOKEN,
    SecretSpec,
)
from hermesops.access.secrets.endpoint import Endpoint
from hermesops.access.secrets.keyring.key_ring import parse_ring
from hermesops.access.secrets.store import Secrets, SecretState
from hermesops.agents.instances.credentials.certificates import CertificateAuthority
from hermesops.automation.doctor.computer import check_computer, needed_extras
from hermesops.automation.doctor.environment import check_all
from hermesops.automation.doctor.network import check_network
from hermesops.base.files import disk
from hermesops.base.narration import counted
from hermesops.base.network.variables import NetworkVariables
from hermesops.errors import BrokenInvariantError, HermesError, Hint, RefusedError, UnavailableError
from hermesops.machines.release.signing import ReleaseKey
from hermesops.model.check import Check, CheckRun
from hermesops.model.ids import platform_machine_name
from hermesops.platform.parts.router import parse_provider_keys
from hermesops.settings.environment import Environment
from hermesops.settings.sections import MessengerSettings
from hermesops.store.registry import Registry
from hermesops.users.billing.secrets import rules_of, stripe_api
from hermesops.users.connections.project import project_of
from hermesops.users.messaging.secrets import (
    discord_bot,
    key_in,
    lines_of,
    roots_in,
    slack_bot,
    telegram_bot,
    whatsapp_bot,
)
from hermesops.vendor.justavps import Client

LOCAL_WORLD = "the local world"
_NOBODY = "hermesops-check"
"""Nobody's name at Composio."""


@dataclass(frozen=True)
class EnvironmentChecks:
    """Checks of one environment.

    Attributes:
        runs_machines: Whether its machines run on this computer, and are no simulated ones.
        account: Checks of the platform's cloud account, by name; none where the environment has no account.
        machines: Reaches a few machines by both ways.
        messengers: The bots, of the settings or of the local world.
        state_opens: Opens a state of Pulumi's with the passphrase.
    """

    env: Environment
    runs_machines: bool
    place: Callable[[], RegistryPlace]
    registry: Callable[[], Registry]
    secrets: Callable[[], Secrets]
    endpoint: Callable[[], Endpoint]
    vendor: Callable[[], AbstractAsyncContextManager[Client]]
    machines: CheckRun
    router_key: Callable[[], bytes]
    authority: Callable[[], CertificateAuthority]
    release_key: Callable[[], ReleaseKey]
    room: CheckRun
    bucket: CheckRun
    account: Mapping[str, CheckRun]
    state_opens: CheckRun
    messengers: Callable[[], MessengerSettings]

    async def doctor(self) -> list[Check]:
        """Checks of this computer and of the environment."""
        runs: dict[str, CheckRun] = {
            "disk": self._disks_take_writes,
            "registry": self._registry_opens,
            "audit": self._audit_is_whole,
            "network": self._network,
            "vendor": self._vendor_answers,
            "machines": self.machines,
        }
        if self.runs_machines:
            runs = {"room": self.room, **runs}
        checks = map(_with_a_hint_elsewhere, await check_all(runs))
        extras = needed_extras(self.env.settings, runs_machines=self.runs_machines)
        return [*check_computer(extras, runs_machines=self.runs_machines), *checks]

    async def all(self) -> list[Check]:
        """Registry, vendor, the platform's account and every secret."""
        own = await check_all({"registry": self._registry_opens, "vendor": self._vendor_answers, **self.account})
        others = tuple(secret.name for secret in CATALOG if secret != API_KEY)  # the vendor's answer is its check
        return [*own, *await self.check_secrets(others)]

    async def check_secrets(self, names: tuple[str, ...] = ()) -> list[Check]:
        """Use each secret for something harmless, one after the other, since two of them open the registry.

        Args:
            names: Only these; empty for all.
        """
        opens: dict[SecretSpec, CheckRun] = {
            API_KEY: self._vendor_answers,
            REGISTRY_KEY: self._registry_unseals,
            MESSAGES_KEY: self._messages_are_sealed,
            PULUMI_PASSPHRASE: self._passphrase_opens,
            ROUTER_KEY: self._router_key_is_long,
            PROVIDERS_KEY: self._providers_are_named,
            BACKUP_KEY: self._bucket_answers,
            DATABASE_KEY: self._database_key_is_kept,
            AUTHORITY_KEY: self._authority_signs,
            RELEASE_KEY: self._release_key_signs,
            BILLING_SECRET: self._endpoint_is_known,
            BILLING_KEY: self._stripe_is_asked,
            CONNECTIONS_KEY: self._composio_is_asked,
            TELEGRAM_TOKEN: self._telegram_is_asked,
            TELEGRAM_SECRET: self._webhook_is_known,
            SLACK_TOKEN: self._slack_is_asked,
            SLACK_SECRET: self._events_are_known,
            WHATSAPP_TOKEN: self._whatsapp_is_asked,
            WHATSAPP_SECRET: self._reports_are_known,
            WHATSAPP_KEY: self._numbers_key_is_long,
            DISCORD_TOKEN: self._discord_is_asked,
            CONNECTOR_KEY: self._connector_key_is_long,
        }
        chosen = [secret for secret in CATALOG if not names or secret.name in names]
        return [check for secret in chosen for check in await check_all({secret.name: opens[secret]})]

    def held_secrets(self) -> tuple[SecretState, ...]:
        """The state of each secret in the catalog, in its order.

        Raises:
            RefusedError: The home does not let us in.
            UnavailableError: The home does not answer.
        """
        worlds_own = {API_KEY, ROUTER_KEY, BACKUP_KEY} if self.env.is_local else set()
        states = (self.secrets().held(secret) for secret in CATALOG)
        return tuple(
            SecretState(state.needed, LOCAL_WORLD, self.env.world.exists(), None)
            if state.needed in worlds_own and not state.is_there
            else state
            for state in states
        )

    def unneeded_secrets(self) -> list[str]:
        """Names in the home that are not in the catalog; perhaps mistyped."""
        try:
            return sorted(self.secrets().home.names() - {secret.name for secret in CATALOG})
        except HermesError:  # the checks report problems of the home
            return []

    async def _disks_take_writes(self) -> str:
        file = self.place().file
        folders = (self.env.folder, *([file.parent] if file else []), self.env.cache, Path(gettempdir()))
        for folder in folders:
            if refusal := disk.try_to_write(folder):
                raise disk.not_written(folder, refusal)
        rooms = {disk.device(folder): f"{disk.free(folder)} at {folder}" for folder in reversed(folders)}
        return ", ".join(reversed(rooms.values()))

    async def _registry_opens(self) -> str:
        registry = self.registry()
        registry.epochs.try_to_write()
        return "; ".join(filter(None, (counted(len(registry.instances.list()), "instance"), registry.log_archive())))

    async def _audit_is_whole(self) -> str:
        report, details = self.registry().audit.check(), Hint(("audit", "verify"), "says where")
        if report.findings:
            raise BrokenInvariantError(
                f"{counted(len(report.findings), 'finding')}: {report.findings[0].what}", hint=details
            )
        if report.entries and not report.anchors:
            raise UnavailableError(
                f"no head of its {report.entries} entries is kept outside the database", hint=details
            )
        return f"{report.entries} entries are chained, up to {report.anchored_to} anchored"

    async def _network(self) -> str:
        try:
            api_url = self.endpoint().api_url
        except HermesError:  # the check of the vendor says why
            api_url = ""
        return await check_network(NetworkVariables.of_process(), api_url)

    async def _vendor_answers(self) -> str:
        async with self.vendor() as client:
            account = await client.get_account()
            platform = await client.find_machine(platform_machine_name(self.env.name))
        count = account.machines_count - bool(platform)
        own = " and the platform's own" if platform else ""
        return f"{self.endpoint().api_url} knows {counted(count, 'machine')}{own}"

    async def _registry_unseals(self) -> str:
        registry, secrets = self.registry(), self.secrets()
        left = registry.sealing.count_otherwise()
        if left:
            raise RefusedError(
                f"{left} values are sealed with an older key than {registry.sealing.key()}: a rotation was cut short",
                hint=Hint(("secrets", "rotate", REGISTRY_KEY.name, "--reason", "WHY")),
            )
        ring = parse_ring(secrets.read(REGISTRY_KEY), secrets.where(REGISTRY_KEY))
        older = f", {len(ring.retired)} kept for older copies" if ring.retired else ""
        return f"the registry opens; key {registry.sealing.key()} seals{older}"

    async def _messages_are_sealed(self) -> str:
        text = self.secrets().find(MESSAGES_KEY)
        if text is None:
            return "made when the users' API first runs"
        ring = parse_ring(text, self.secrets().where(MESSAGES_KEY))
        return f"key {ring.current} seals"

    async def _passphrase_opens(self) -> str:
        if self.secrets().find(PULUMI_PASSPHRASE) is None:
            return "made when the first cell is"
        return await self.state_opens()

    async def _router_key_is_long(self) -> str:
        return f"{8 * len(self.router_key())} bits"

    async def _authority_signs(self) -> str:
        known = len(self.registry().certificates.list_authorities())
        if not known:
            return "made with the first machine's certificate"
        self.authority().load()
        return f"signs; machines trust {known}"

    async def _release_key_signs(self) -> str:
        key = self.release_key()
        if not key.is_available:
            return "nobody signs releases here: none can be built, and no image; those of the store can be deployed"
        signer = key.find()
        return f"{signer.public()} signs releases" if signer else "made with the first release"

    async def _endpoint_is_known(self) -> str:
        if self.secrets().find(BILLING_SECRET) is None:
            return "none: no events of Stripe's are taken here"
        rules = rules_of(self.env.settings.billing, self.secrets(), is_production=self.env.is_production)
        mode = "live" if rules.livemode else "test"
        return f"{counted(len(rules.secrets), 'signing secret')}, of {mode} mode"

    async def _stripe_is_asked(self) -> str:
        settings, is_production = self.env.settings.billing, self.env.is_production
        if stripe_api(settings, self.secrets(), is_production=is_production) is None:
            return "none: Stripe's events alone decide"
        return "Stripe is asked before anything is done"

    async def _composio_is_asked(self) -> str:
        if self.secrets().find(CONNECTIONS_KEY) is None:
            own = "the local world's Composio stands in" if self.env.is_local else "no service is offered"
            return f"none: {own}"
        project = project_of(self.env.settings.connections, self.secrets(), None)
        assert project is not None  # noqa: S101 - the key is there
        await project.composio.accounts_of(_NOBODY)
        return f"Composio takes it; {counted(len(project.services), 'service')} offered"

    async def _telegram_is_asked(self) -> str:
        if self.secrets().find(TELEGRAM_TOKEN) is None:
            return "none: Telegram is not offered"
        return f"Telegram takes it, for @{await telegram_bot(self.messengers(), self.secrets()).name()}"

    async def _webhook_is_known(self) -> str:
        text = self.secrets().find(TELEGRAM_SECRET)
        if text is None:
            return "none: no update of Telegram's is taken"
        return counted(len(lines_of(text)), "secret")

    async def _slack_is_asked(self) -> str:
        if self.secrets().find(SLACK_TOKEN) is None:
            return "none: Slack is not offered"
        return f"Slack takes it, for {await slack_bot(self.messengers(), self.secrets()).name()}"

    async def _events_are_known(self) -> str:
        text = self.secrets().find(SLACK_SECRET)
        if text is None:
            return "none: no event of Slack's is taken"
        return counted(len(lines_of(text)), "secret")

    async def _whatsapp_is_asked(self) -> str:
        if self.secrets().find(WHATSAPP_TOKEN) is None:
            return "none: WhatsApp is not offered"
        return f"Meta takes it, for +{(await whatsapp_bot(self.messengers(), self.secrets()).number()).digits}"

    async def _reports_are_known(self) -> str:
        text = self.secrets().find(WHATSAPP_SECRET)
        if text is None:
            return "none: no report of WhatsApp's is taken"
        return counted(len(lines_of(text)), "secret")

    async def _numbers_key_is_long(self) -> str:
        text = self.secrets().find(WHATSAPP_KEY)
        if text is None:
            return "made once WhatsApp is offered"
        return counted(len(key_in(text)), "character")

    async def _discord_is_asked(self) -> str:
        if self.secrets().find(DISCORD_TOKEN) is None:
            return "none: Discord is not offered"
        return f"Discord takes it, for {(await discord_bot(self.messengers(), self.secrets()).application()).name}"

    async def _connector_key_is_long(self) -> str:
        text = self.secrets().find(CONNECTOR_KEY)
        if text is None:
            return "none: no agent opens a socket"
        return counted(len(roots_in(text)), "key")

    async def _providers_are_named(self) -> str:
        text = self.secrets().find(PROVIDERS_KEY)
        if text is None:
            own = (
                "the local world's model stands in" if self.env.is_local else "the platform's model router has no model"
            )
            return f"none: {own}"
        return f"keys of {', '.join(parse_provider_keys(text, self.secrets().where(PROVIDERS_KEY)))}"

    async def _database_key_is_kept(self) -> str:
        text = self.secrets().find(DATABASE_KEY)
        if text is None:
            return "made when the platform is, where that is one machine"
        return f"kept, {counted(len(text), 'character')}; the platform's host alone can try it"

    async def _bucket_answers(self) -> str:
        if self.env.is_local and not self.env.settings.backup.bucket:
            return "the local world's own, made with the first backup"
        return f"bucket {await self.bucket()} answers, and keeps versions"


def _with_a_hint_elsewhere(check: Check) -> Check:
    """Replace a hint that would lead from ``doctor`` back to ``doctor``."""
    if ("doctor",) not in check.hint.parts:
        return check
    first = str(check.hint.parts[0])
    does = (
        Hint(first.rstrip(";")) if first.endswith(";") else Hint(("settings", "show"), "shows which address is meant")
    )
    return replace(check, hint=does)
