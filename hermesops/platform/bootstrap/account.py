"""An AWS account, looked at and changed by the steps of a bootstrap. It must not decide which."""

from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.platform.bootstrap.changes import AccountChanges
from hermesops.platform.bootstrap.clients import AwsClients, asking_aws, code_of
from hermesops.platform.bootstrap.decide import (
    AccountState,
    BucketState,
    Step,
)
from hermesops.platform.bootstrap.observation import AccountObservation
from hermesops.platform.bootstrap.spec import BootstrapSpec


class Account:
    """One account and region: reads and changes of a bootstrap."""

    def __init__(self, region: str) -> None:
        self._clients = AwsClients(region)
        self._observation = AccountObservation(self._clients)
        self._changes = AccountChanges(self._clients)

    def caller(self) -> tuple[str, str]:
        """Account and ARN of the credentials' identity.

        Raises:
            UsageError: There are no credentials.
            RefusedError: They do not count.
            UnavailableError: AWS does not answer.
        """
        try:
            with asking_aws("who asks"):
                identity = self._clients.open("sts").get_caller_identity()
        except UsageError as error:
            raise UsageError(
                f"no AWS credentials: {error.message}", hint="set AWS_PROFILE, or AWS_ACCESS_KEY_ID and its secret"
            ) from error
        return identity["Account"], identity["Arn"]

    def observe(self, spec: BootstrapSpec) -> AccountState:
        """Everything that a bootstrap is about."""
        return self._observation.observe(spec)

    def bucket(self, spec: BootstrapSpec) -> BucketState | None:
        """The bucket of the state, as ``AccountObservation.bucket`` returns it."""
        return self._observation.bucket(spec)

    def do(self, spec: BootstrapSpec, step: Step, state: AccountState) -> None:
        """Carry out a step; each may be repeated. ``state`` is the account before the step."""
        self._changes.do(spec, step, state)

    def check_key(self, spec: BootstrapSpec) -> str:
        """Try to encrypt and decrypt with the key; returns the observation in a few words.

        Raises:
            RefusedError: It is not enabled, or who asks may not look at it.
            UsageError: There is none.
        """
        with asking_aws(spec.alias):
            metadata = self._observation.key_metadata(spec.alias)
            if metadata is None:
                raise UsageError(f"there is no key {spec.alias}", hint=Hint(("platform", "bootstrap"), "makes it"))
            if metadata["KeyState"] != "Enabled":
                raise RefusedError(
                    f"key {spec.alias} is {metadata['KeyState']}", hint=Hint(("platform", "bootstrap"), "restores it")
                )
            try:
                sealed = self._clients.kms.encrypt(KeyId=spec.alias, Plaintext=b"hermesops")["CiphertextBlob"]
            except self._clients.kms.exceptions.ClientError as error:
                if code_of(error) != "AccessDeniedException":
                    raise
                return f"{spec.alias} is enabled; these credentials may not encrypt with it"
            self._clients.kms.decrypt(CiphertextBlob=sealed)
            return f"{spec.alias} encrypts and decrypts"
