"""Whose signatures count for releases, and how that changes: a chain of allowed signers, each signed by the one before.

The rule is the machines' own (``hermesops.node.release_handout``): who knows one file of the chain goes on from there.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from hermesops.errors import HermesError, RefusedError
from hermesops.node.errors import NodeError
from hermesops.node.release_handout import Signed
from hermesops.node.release_lock import NAMESPACE, canonical
from hermesops.release.ports import Checks, Signs, Store

NAME = "signers.json"


@dataclass(frozen=True)
class Trust:
    """The signers of a store's releases.

    Args:
        store: Where the chain is kept.
        checks: Checks signatures.
        anchor: The file of allowed signers that this computer knows, from before or because an operator said so;
            empty for none, and the first of the chain is believed.
    """

    store: Store
    checks: Checks
    anchor: str = ""

    def chain(self) -> tuple[Signed, ...]:
        """All files of allowed signers, oldest first; empty where nothing was ever signed.

        Raises:
            RefusedError: It is damaged, or does not lead on from what is known here.
        """
        kept = self.store.read(NAME)
        if kept is None:
            return ()
        try:
            chain = tuple(Signed.parse(one, f"{NAME}[{number}]") for number, one in enumerate(json.loads(kept)))
        except (ValueError, TypeError, NodeError) as error:
            raise RefusedError(
                f"{NAME} of {self.store.url} is damaged: {error}", hint="put it back from a copy of the store"
            ) from error
        if chain:
            self._follow(chain)
        return chain

    def current(self) -> str:
        """Whose signatures count now, in OpenSSH's format; empty where nothing was ever signed."""
        chain = self.chain()
        return chain[-1].text if chain else ""

    def verify(self, data: bytes, signature: str) -> str:
        """Who signed something about releases.

        Raises:
            RefusedError: Nobody whose signature counts.
        """
        signers = self.current()
        if not signers:
            raise RefusedError(f"{self.store.url} names no signers", hint="hermesops release build makes the first")
        return self.checks(data, signature, signers=signers, namespace=NAMESPACE)

    def replace(self, signers: str, signs: Signs) -> None:
        """Let others sign from now on; the key at hand has to count before and after, or nobody could mend a mistake.

        Raises:
            RefusedError: It does not.
        """
        chain, data = self.chain(), signers.encode()
        signature = signs.sign(data, namespace=NAMESPACE)
        for counted, when in ((chain[-1].text if chain else signers, "now"), (signers, "afterwards")):
            try:
                self.checks(data, signature, signers=counted, namespace=NAMESPACE)
            except RefusedError as error:
                raise RefusedError(
                    f"the key at hand signs no releases {when}: {error.message}",
                    hint="first let both keys sign, then change to the new one, and only then leave the old one out",
                ) from error
        if not chain or chain[-1].text != signers:
            self.store.write(NAME, canonical([one.to_dict() for one in (*chain, Signed(signers, signature))]))

    def _follow(self, chain: Sequence[Signed]) -> None:
        known = next((number for number, one in enumerate(chain) if one.text == self.anchor), None)
        if self.anchor and known is None:
            raise RefusedError(
                f"the signers in {self.store.url} do not follow those that this computer knows",
                hint="ask who changed them; hermesops release signers show",
            )
        start = known or 0
        before = chain[start].text
        for number, one in enumerate(chain[start:], start):
            try:
                self.checks(one.text.encode(), one.signature, signers=before, namespace=NAMESPACE)
            except HermesError as error:
                if number == start and known is not None:
                    continue  # known here, whoever vouched for it
                raise RefusedError(
                    f"signers {number + 1} of {self.store.url} are not signed by one before them: {error.message}",
                    hint="hermesops release signers show",
                ) from error
            before = one.text
