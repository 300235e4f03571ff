"""Who acts: a name that the computer says, or an identity that a key or a pipeline's token proves.

What is proved reads ``ada@example.org@ssh:HOST`` or ``repo:…@oidc:HOST`` in the audit; a mere name has no colon behind
its host, and none that a name could bring along.
"""

import secrets
from typing import Protocol

NAMESPACE = "hermesops-operator"
"""Of the signature with which an operator's key proves that it is there."""


class Signers(Protocol):
    """Signs and checks; see ``identity.signatures``."""

    def sign(self, data: bytes, *, namespace: str) -> str:
        """Sign some bytes with the operator's key."""

    def verify(self, data: bytes, signature: str, *, namespace: str) -> str:
        """Check a signature; the identity of its key."""


class Pipelines(Protocol):
    """Checks pipelines' tokens; see ``identity.oidc``."""

    def subject_of(self, token: str) -> str:
        """Whom a token is about."""


PROOFS = ("@ssh:", "@oidc:")
"""What stands between an identity that was proved and the computer on which it was."""


def proved_identity(who: str) -> str:
    """The identity in the audit's "who"; empty for a mere name, which nothing proves."""
    at = max(who.rfind(proof) for proof in PROOFS)
    return who[:at] if at > 0 else ""


def named(user: str, host: str) -> str:
    """Somebody whom the computer calls so."""
    return f"{user.replace(':', '_').replace('@', '_')}@{host.replace(':', '_')}"


def by_key(signers: Signers, host: str) -> str:
    """Whoever holds the operator's key; asked to sign something that was never signed before.

    Raises:
        RefusedError: It does not sign, or is none of those whom the allowed signers name for this namespace.
    """
    challenge = secrets.token_bytes(32)
    identity = signers.verify(challenge, signers.sign(challenge, namespace=NAMESPACE), namespace=NAMESPACE)
    return f"{identity}@ssh:{host}"


def by_token(pipelines: Pipelines, token: str, host: str) -> str:
    """The pipeline that a token is about.

    Raises:
        RefusedError: The token does not hold, or is not about one that may act here.
        UnavailableError: Its issuer does not say with which keys it signs.
    """
    return f"{pipelines.subject_of(token)}@oidc:{host}"
