"""The table of all secrets that hermesops needs. Pure."""

from dataclasses import dataclass

from hermesops.errors import Hint
from hermesops.model.unknown_name import unknown_name


@dataclass(frozen=True)
class SecretSpec:
    """A secret that hermesops needs.

    Attributes:
        name: In every backend; the file's name in ``keys/``.
        purpose: Its use, for people.
        setting: The setting that names a file of it, which takes precedence over the backend.
        rotation: How a person rotates it, a sentence each; empty where ``secrets rotate`` does all of it.
    """

    name: str
    purpose: str
    setting: str
    rotation: tuple[Hint | str, ...] = ()


API_KEY = SecretSpec(
    "api.key",
    "opens JustAVPS's API",
    "api_key_file",
    rotation=(
        "make a second API key in JustAVPS's dashboard",
        Hint(("secrets", "set", "api.key", "--from", "FILE")),
        Hint(("secrets", "check", "api.key")),
        Hint("restart long-running programs, as", ("worker",)),
        "delete the old key in the dashboard",
    ),
)
REGISTRY_KEY = SecretSpec("registry.key", "encrypts secrets in the registry", "registry.key_file")
MESSAGES_KEY = SecretSpec(
    "messages.key",
    "encrypts in rows what users say, until it is answered",
    "web.messages_key_file",
    rotation=(
        Hint(
            ("secrets", "set", "messages.key", "--from", "FILE"),
            ", where FILE has the ring with one more key, which it names as current",
        ),
        Hint("restart", ("api", "serve")),
        "an hour later nothing is sealed with the old key but sessions of pages: those users sign in again",
    ),
)
PULUMI_PASSPHRASE = SecretSpec(
    "pulumi.passphrase",
    "encrypts secrets in Pulumi's state",
    "pulumi.passphrase_file",
    rotation=(
        "for every cell: pulumi stack change-secrets-provider passphrase --stack CELL (it asks for the new one)",
        Hint(("secrets", "set", "pulumi.passphrase", "--from", "FILE")),
        Hint(("stack", "preview", "--all"), "opens every state with it"),
    ),
)
ROUTER_KEY = SecretSpec(
    "router.key",
    "signs agents' tokens for the model router",
    "router.key_file",
    rotation=(
        Hint(("secrets", "set", "router.key", "--from", "FILE"), ", where FILE has the new key, the old one below it"),
        Hint(("stack", "up", "platform"), "has the model router accept both"),
        Hint(("token", "rotate", "--all"), "gives every agent a token of the new key"),
        Hint(("secrets", "set", "router.key", "--from", "FILE"), ", where FILE has the new key alone"),
        Hint(("stack", "up", "platform"), "ends the tokens that the old one signed"),
    ),
)
PROVIDERS_KEY = SecretSpec(
    "providers.key",
    "opens model providers for the model router, a line PROVIDER=KEY each",
    "model.providers_key_file",
    rotation=(
        "make a second key at the provider",
        Hint(("secrets", "set", "providers.key", "--from", "FILE"), ", where FILE has a line for each provider"),
        Hint(("stack", "up", "platform"), "gives it to the model router"),
        "delete the old key at the provider",
    ),
)
BACKUP_KEY = SecretSpec(
    "backup.key",
    "opens the bucket of backups, in the form of ~/.aws/credentials",
    "backup.key_file",
    rotation=(
        "make a second access key for the platform's user: aws iam create-access-key",
        Hint(("secrets", "set", "backup.key", "--from", "FILE")),
        Hint(("secrets", "check", "backup.key")),
        "delete the old one: aws iam delete-access-key",
    ),
)
DATABASE_KEY = SecretSpec(
    "database.key",
    "encrypts backups of the database on a platform of one machine",
    "platform.database_key_file",
    rotation=(
        "pgBackRest opens a repository with one key alone: keep it for as long as its backups are needed",
        "give the database another bucket (hermes_platform_postgresql_bucket) with a key of its own",
    ),
)
_TRUST_BOTH = Hint(
    ("stack", "up", "platform"),
    "makes the platform's services trust both; a local world with monitoring alone:",
    ("local", "up", "--monitoring"),
)
AUTHORITY_KEY = SecretSpec(
    "authority.key",
    "signs machines' certificates",
    "authority_key_file",
    rotation=(
        Hint(("identity", "trust", "FILE"), "makes a new key in FILE, which machines trust beside the old one"),
        Hint(("identity", "renew", "--all"), "informs every machine now; renewals do within a week"),
        _TRUST_BOTH,
        Hint(("secrets", "set", "authority.key", "--from", "FILE"), ", and the step before it once more"),
        Hint("restart", ("identity", "serve")),
    ),
)
RELEASE_KEY = SecretSpec(
    "release.key",
    "signs releases, where no operator's key does",
    "release.key_file",
    rotation=(
        Hint(("release", "signers", "set", "FILE", "--reason", "WHY"), ", where FILE names the old key and a new one"),
        Hint(("secrets", "set", "release.key", "--from", "FILE"), "takes the new one"),
        Hint(
            ("release", "signers", "set", "FILE", "--sign-again", "--reason", "WHY"),
            ", where FILE names only the new one",
        ),
    ),
)
BILLING_SECRET = SecretSpec(
    "billing.secret",
    "proves that events about subscriptions are Stripe's",
    "billing.secret_file",
    rotation=(
        "roll the secret of the endpoint in Stripe's dashboard, and keep the old one valid for 24 hours more",
        Hint(("secrets", "set", "billing.secret", "--from", "FILE"), ", where FILE has the new one and the old one"),
        Hint("a day later, the same with the new one alone; restart long-running programs, as", ("worker",)),
    ),
)
BILLING_KEY = SecretSpec(
    "billing.key",
    "reads subscriptions at Stripe, and makes checkout pages",
    "billing.key_file",
    rotation=(
        "make a second restricted key in Stripe's dashboard: it may write subscriptions, checkout and portal sessions",
        "let it read prices and invoices, and nothing else",
        Hint(("secrets", "set", "billing.key", "--from", "FILE")),
        "delete the old key in the dashboard",
    ),
)
CONNECTIONS_KEY = SecretSpec(
    "connections.key",
    "uses and revokes users' accounts of services, at Composio",
    "connections.key_file",
    rotation=(
        "make a second project key in Composio's dashboard",
        Hint(("secrets", "set", "connections.key", "--from", "FILE")),
        Hint(("secrets", "check", "connections.key")),
        "delete the old key in the dashboard",
    ),
)
TELEGRAM_TOKEN = SecretSpec(
    "telegram.token",
    "writes to users in Telegram as the bot",
    "messengers.telegram_token_file",
    rotation=(
        "revoke the token at BotFather, which gives a new one at once",
        Hint(("secrets", "set", "telegram.token", "--from", "FILE")),
        Hint(("secrets", "check", "telegram.token")),
        "messages that were queued meanwhile are sent by the new one",
    ),
)
TELEGRAM_SECRET = SecretSpec(
    "telegram.secret",
    "proves that updates are Telegram's",
    "messengers.telegram_secret_file",
    rotation=(
        Hint(("secrets", "set", "telegram.secret", "--from", "FILE"), ", where FILE has a new line above the old one"),
        Hint("restart the users' API, and tell Telegram the new one:", ("messenger", "register", "telegram")),
        Hint(("secrets", "set", "telegram.secret", "--from", "FILE"), ", where FILE has the new one alone"),
    ),
)
SLACK_TOKEN = SecretSpec(
    "slack.token",
    "writes to users in Slack as the bot",
    "messengers.slack_token_file",
    rotation=(
        "install the app to the workspace again, at Slack's page of the app, which gives a new token of the bot",
        Hint(("secrets", "set", "slack.token", "--from", "FILE")),
        Hint(("secrets", "check", "slack.token")),
        "messages that were queued meanwhile are sent by the new one",
    ),
)
SLACK_SECRET = SecretSpec(
    "slack.secret",
    "proves that events are Slack's",
    "messengers.slack_secret_file",
    rotation=(
        "make a new signing secret at Slack's page of the app",
        Hint(("secrets", "set", "slack.secret", "--from", "FILE"), ", where FILE has the new line above the old one"),
        Hint(("secrets", "set", "slack.secret", "--from", "FILE"), ", a day later, where FILE has the new one alone"),
    ),
)
WHATSAPP_TOKEN = SecretSpec(
    "whatsapp.token",
    "writes to users in WhatsApp by the platform's number",
    "messengers.whatsapp_token_file",
    rotation=(
        "generate a second token of the system user in Meta's business settings, with the same permissions",
        Hint(("secrets", "set", "whatsapp.token", "--from", "FILE")),
        Hint(("secrets", "check", "whatsapp.token")),
        "revoke the old token in Meta's business settings",
    ),
)
WHATSAPP_SECRET = SecretSpec(
    "whatsapp.secret",
    "proves that reports are WhatsApp's",
    "messengers.whatsapp_secret_file",
    rotation=(
        "reset the app's secret at Meta's page of the app",
        Hint(
            ("secrets", "set", "whatsapp.secret", "--from", "FILE"), ", where FILE has the new line above the old one"
        ),
        Hint("restart the users' API, and tell WhatsApp the new one:", ("messenger", "register", "whatsapp")),
        Hint(
            ("secrets", "set", "whatsapp.secret", "--from", "FILE"), ", a day later, where FILE has the new one alone"
        ),
    ),
)
WHATSAPP_KEY = SecretSpec(
    "whatsapp.key",
    "makes the digests that stand for telephone numbers",
    "messengers.whatsapp_key_file",
    rotation=(
        "change it only where it was read by somebody: with another key nobody's account is known any more",
        Hint(("secrets", "set", "whatsapp.key", "--from", "FILE"), ", where FILE has a new key"),
        Hint(("stack", "up", "platform"), "brings it to the users' API"),
        "users link their accounts in WhatsApp again on their chat pages",
    ),
)
DISCORD_TOKEN = SecretSpec(
    "discord.token",
    "takes users' messages in Discord and writes to them as the bot",
    "messengers.discord_token_file",
    rotation=(
        "reset the token at Discord's page of the application, which gives a new one at once",
        Hint(("secrets", "set", "discord.token", "--from", "FILE")),
        Hint(("secrets", "check", "discord.token")),
        "messages of either way that waited meanwhile go on by the new one",
    ),
)
CONNECTOR_KEY = SecretSpec(
    "connector.key",
    "is the root of the secrets by which agents open their sockets",
    "messengers.connector_key_file",
    rotation=(
        Hint(("secrets", "set", "connector.key", "--from", "FILE"), ", where FILE has a new line above the old one"),
        Hint(
            ("stack", "up", "platform"), "has the connector accept both; restart long-running programs, as", ("worker",)
        ),
        Hint(("token", "rotate", "--all"), "hands every agent a secret of the new key"),
        Hint(("secrets", "set", "connector.key", "--from", "FILE"), ", where FILE has the new key alone"),
        Hint(("stack", "up", "platform"), "ends the sockets' secrets of the old one"),
    ),
)

CATALOG = (
    API_KEY,
    REGISTRY_KEY,
    MESSAGES_KEY,
    PULUMI_PASSPHRASE,
    ROUTER_KEY,
    PROVIDERS_KEY,
    BACKUP_KEY,
    DATABASE_KEY,
    AUTHORITY_KEY,
    RELEASE_KEY,
    BILLING_SECRET,
    BILLING_KEY,
    CONNECTIONS_KEY,
    TELEGRAM_TOKEN,
    TELEGRAM_SECRET,
    SLACK_TOKEN,
    SLACK_SECRET,
    WHATSAPP_TOKEN,
    WHATSAPP_SECRET,
    WHATSAPP_KEY,
    DISCORD_TOKEN,
    CONNECTOR_KEY,
)
"""All of them, in the order in which they are shown."""


def needed(name: str) -> SecretSpec:
    """The secret of that name.

    Raises:
        UsageError: hermesops needs none of that name.
    """
    for spec in CATALOG:
        if spec.name == name:
            return spec
    raise unknown_name("secret", name, [spec.name for spec in CATALOG])
