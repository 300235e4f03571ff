"""The name of the actor: given by the computer, or an identity that a key or a pipeline's token proves.

A proved identity reads ``ada@example.org@ssh:HOST`` or ``repo:…@oidc:HOST`` in the audit log; in an unproved name all
colons are replaced, so it cannot look like that.
"""

import secrets

from hermesops.access.identity.oidc import Pipelines
from hermesops.access.identity.signatures import Signers

NAMESPACE = "hermesops-operator"
"""Namespace of the signature by which an operator's key proves that it is there."""


PROOFS = ("@ssh:", "@oidc:")
"""Between a proved identity and the computer on which it was proved."""


def proved_identity(who: str) -> str:
    """Return the proved identity in an audit entry's ``who``; empty for an unproved name."""
    at = max(who.rfind(proof) for proof in PROOFS)
    return who[:at] if at > 0 else ""


def named(user: str, host: str) -> str:
    """An unproved name, as the audit log has it."""
    return f"{user.replace(':', '_').replace('@', '_')}@{host.replace(':', '_')}"


def by_key(signers: Signers, host: str) -> str:
    """The identity of the operator's key, proved by signing a fresh challenge.

    Raises:
        RefusedError: It does not sign, or is not of an allowed signer for this namespace.
    """
    challenge = secrets.token_bytes(32)
    identity = signers.verify(challenge, signers.sign(challenge, namespace=NAMESPACE), namespace=NAMESPACE)
    return f"{identity}@ssh:{host}"


def by_token(pipelines: Pipelines, token: str, host: str) -> str:
    """The identity of the pipeline that a token names.

    Raises:
        RefusedError: The token is not valid, or names a pipeline that may not act here.
        UnavailableError: Its issuer does not publish its keys.
    """
    return f"{pipelines.subject_of(token)}@oidc:{host}"
