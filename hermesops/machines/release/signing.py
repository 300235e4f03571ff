"""The signer of releases here, and the keys whose signatures are valid."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hermesops.access.identity.signatures import Signers, as_file, check, fresh_key
from hermesops.access.secrets.catalog import RELEASE_KEY
from hermesops.access.secrets.store import Secrets
from hermesops.errors import Hint, RefusedError
from hermesops.infra.engine.embedded.state.storage import Storage
from hermesops.machines.release.trust import StoreMemory, Trust
from hermesops.settings.environment import Environment
from hermesops.wire.documents.signers import NAMESPACES


def trust_of(env: Environment, store: Storage) -> Trust:
    """Build the trust in the signatures of a store's releases from the environment's allowed and revoked signers."""
    allowed = env.settings.allowed_signers
    return Trust(
        store,
        partial(check, revoked=env.settings.revoked_signers),
        StoreMemory(env.keys),
        vouchers=_text(allowed) if allowed else "",
        needs_vouchers=env.is_production,
    )


@dataclass(frozen=True)
class ReleaseKey:
    """The key that signs releases: one that settings name, or a secret that the first release makes."""

    env: Environment
    secrets: Secrets

    def sign(self, data: bytes, *, namespace: str) -> str:
        """Sign some bytes; the signature, armored. Where there is no key yet, one is made."""
        return self._make().sign(data, namespace=namespace)

    def first_signers(self) -> str:
        """The first signers of a store: those the environment allows, else this key."""
        if allowed := self.env.settings.allowed_signers:
            return _text(allowed)
        return f'releases@{self.env.name} namespaces="{NAMESPACES}" {self._make().public()}\n'

    @property
    def is_available(self) -> bool:
        """Whether releases can be signed here; the local environment makes a key with its first release."""
        return bool(self._given or self.env.is_local) or self.secrets.find(RELEASE_KEY) is not None

    def find(self) -> Signers | None:
        """The signer of releases with its existing key; ``None`` where the first release makes one.

        Raises:
            RefusedError: There is no signer.
        """
        if key := self._given:
            return Signers(key)
        text = self.secrets.find(RELEASE_KEY)
        if text is not None:
            return Signers(self.secrets.lend(RELEASE_KEY, as_file(text)))
        if self.env.is_local:
            return None
        raise RefusedError(
            f"there is no key that signs releases in environment {self.env.name}",
            hint=Hint("set operator_key or release.key_file, or", ("secrets", "set", "release.key", "--from", "FILE")),
        )

    def lasting(self) -> Signers | None:
        """The signer by a key file that stays after this process has ended, if there is one; raises as ``find``."""
        file = self.secrets.home.path(RELEASE_KEY.name)
        return Signers(file) if file is not None and file.exists() else self.find()

    @property
    def _given(self) -> Path | None:
        return self.env.settings.release.key_file or self.env.settings.operator_key

    def _make(self) -> Signers:
        signers = self.find()
        return signers or Signers(self.secrets.lend(RELEASE_KEY, as_file(self.secrets.made(RELEASE_KEY, fresh_key()))))


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(
            f"the allowed signers cannot be read from {file}", hint=Hint(("settings", "show"))
        ) from error
