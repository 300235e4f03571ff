"""Which secrets hermesops needs: the one table of them. Pure."""

from dataclasses import dataclass

from hermesops.model.unknown_name import unknown_name


@dataclass(frozen=True)
class SecretSpec:
    """A secret that hermesops needs.

    Attributes:
        name: In every backend; the file's name in ``keys/``.
        purpose: What it opens, for people.
        setting: The setting that names a file of it, which takes precedence over the backend.
        rotation: How a person rotates it, a sentence each; empty where ``secrets rotate`` does all of it.
            ``{env}`` is replaced by the option that names the environment.
    """

    name: str
    purpose: str
    setting: str
    rotation: tuple[str, ...] = ()


API_KEY = SecretSpec(
    "api.key",
    "opens JustAVPS's API",
    "api_key_file",
    rotation=(
        "make a second API key in JustAVPS's dashboard",
        "hermesops{env} secrets set api.key --from FILE",
        "hermesops{env} secrets check api.key",
        "restart what runs all the time (hermesops worker)",
        "end the old key in the dashboard",
    ),
)
REGISTRY_KEY = SecretSpec("registry.key", "encrypts secrets in the registry", "registry.key_file")
PULUMI_PASSPHRASE = SecretSpec(
    "pulumi.passphrase",
    "encrypts secrets in Pulumi's state",
    "pulumi.passphrase_file",
    rotation=(
        "for every cell: pulumi stack change-secrets-provider passphrase --stack CELL (it asks for the new one)",
        "hermesops{env} secrets set pulumi.passphrase --from FILE",
        "hermesops{env} stack preview --all opens every state with it",
    ),
)
ROUTER_KEY = SecretSpec(
    "router.key",
    "signs agents' tokens for the model router",
    "router.key_file",
    rotation=(
        "let the model router accept the new key beside the old one",
        "hermesops{env} secrets set router.key --from FILE",
        "hermesops{env} provision USER hands every agent a token of the new key",
        "take the old key from the router: tokens that it signed end",
    ),
)
BACKUP_KEY = SecretSpec(
    "backup.key",
    "opens the bucket of backups, in the form of ~/.aws/credentials",
    "backup.key_file",
    rotation=(
        "make a second access key for the platform's user: aws iam create-access-key",
        "hermesops{env} secrets set backup.key --from FILE",
        "hermesops{env} secrets check backup.key",
        "end the old one: aws iam delete-access-key",
    ),
)
AUTHORITY_KEY = SecretSpec(
    "authority.key",
    "signs machines' certificates",
    "authority_key_file",
    rotation=(
        "hermesops{env} identity trust FILE makes a new key in FILE, which machines trust beside the old one",
        "hermesops{env} identity renew --all tells every machine; so does a week of renewals",
        "hermesops{env} secrets set authority.key --from FILE",
        "restart hermesops identity serve",
    ),
)
RELEASE_KEY = SecretSpec(
    "release.key",
    "signs releases, where no operator's key does",
    "release.key_file",
    rotation=(
        "hermesops{env} release signers set FILE --reason WHY, where FILE names the old key and a new one",
        "hermesops{env} secrets set release.key --from FILE takes the new one",
        "hermesops{env} release signers set FILE --sign-again --reason WHY, where FILE names the new one alone",
    ),
)

CATALOG = (API_KEY, REGISTRY_KEY, PULUMI_PASSPHRASE, ROUTER_KEY, BACKUP_KEY, AUTHORITY_KEY, RELEASE_KEY)
"""All of them, in the order in which they are shown."""


def needed(name: str) -> SecretSpec:
    """The secret of that name.

    Raises:
        UsageError: hermesops needs none of that name.
    """
    for one in CATALOG:
        if one.name == name:
            return one
    raise unknown_name("secret", name, [one.name for one in CATALOG])
