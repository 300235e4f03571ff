"""Whose signatures count for releases, and how that changes: a chain of allowed signers, each signed by the one before.

The rule is the machines' own (``hermesops.node.release_handout``): who knows one file of the chain goes on from there.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hermesops.errors import RefusedError
from hermesops.node.checked import listed
from hermesops.node.errors import NodeError
from hermesops.node.release_handout import Signed
from hermesops.node.release_lock import NAMESPACE, canonical
from hermesops.release.ports import Checks, Signs, Store

NAME = "signers.json"
_WHO = "ask who changed them; hermesops release signers show"


Known = Callable[[], str]
"""The file of allowed signers that this computer knows from before; empty for none."""


@dataclass(frozen=True)
class Trust:
    """The signers of a store's releases.

    Attributes:
        store: Where the chain is kept.
        checks: Checks signatures.
        known: What this computer knows from before.
        remember: Takes what it knows from now on.
        vouchers: Allowed signers that an operator trusts for such files, where nothing is known from before; empty
            for nobody, and then the first of the chain is believed.
    """

    store: Store
    checks: Checks
    known: Known
    remember: Callable[[str], None]
    vouchers: str = ""

    def chain(self) -> tuple[Signed, ...]:
        """All files of allowed signers, oldest first; empty where nothing was ever signed.

        Raises:
            RefusedError: It is damaged, or does not lead on from what is known here.
        """
        kept = self.store.read(NAME)
        if kept is None:
            return ()
        try:
            links = listed(json.loads(kept), NAME)
            chain = tuple(Signed.parse(one, f"{NAME}[{number}]") for number, one in enumerate(links))
        except (ValueError, NodeError) as error:
            raise RefusedError(
                f"{NAME} of {self.store.url} is damaged: {error}", hint="put it back from a copy of the store"
            ) from error
        if chain:
            known = self.known()
            self._follow(chain, known)
            if chain[-1].text != known:
                self.remember(chain[-1].text)
        return chain

    def current(self) -> str:
        """Whose signatures count now, in OpenSSH's format; empty where nothing was ever signed."""
        chain = self.chain()
        return chain[-1].text if chain else ""

    def refuse_lockout(self, signers: str, signs: Signs) -> Signed:
        """Go on when the key at hand counts now and would count among other signers, or nobody could mend a mistake.

        Returns:
            Those signers, signed.

        Raises:
            RefusedError: It does not.
        """
        data, now = signers.encode(), self.current() or signers
        signature = signs.sign(data, namespace=NAMESPACE)
        for counted, when in ((now, "now"), (signers, "afterwards")):
            try:
                self.checks(data, signature, signers=counted, namespace=NAMESPACE)
            except RefusedError as error:
                raise RefusedError(
                    f"the key at hand signs no releases {when}: {error.message}",
                    hint="first let both keys sign, then change to the new one, and only then leave the old one out",
                ) from error
        return Signed(signers, signature)

    def replace(self, signed: Signed) -> None:
        """Let others sign from now on; see ``refuse_lockout``."""
        chain = self.chain()
        if not chain or chain[-1].text != signed.text:
            self.store.write(NAME, canonical([one.to_dict() for one in (*chain, signed)]))

    def _follow(self, chain: Sequence[Signed], known: str) -> None:
        start = self._start(chain, known)
        before = chain[start].text
        for number, one in enumerate(chain[start + 1 :], start + 2):
            if not self._is_by(one, before):
                raise RefusedError(
                    f"signers {number} of {self.store.url} are not signed by one of those before them", hint=_WHO
                )
            before = one.text

    def _start(self, chain: Sequence[Signed], known: str) -> int:
        """Which file of the chain is believed without another one's word."""
        if known:
            found = (number for number, one in enumerate(chain) if one.text == known)
            otherwise = f"the signers in {self.store.url} do not follow those that this computer knows"
        else:
            found = (number for number, one in enumerate(chain) if self._is_by(one, self.vouchers or one.text))
            otherwise = f"the signers in {self.store.url} are signed by nobody whom this environment allows"
        start = next(found, None)
        if start is None:
            raise RefusedError(otherwise, hint=_WHO)
        return start

    def _is_by(self, one: Signed, signers: str) -> bool:
        try:
            self.checks(one.text.encode(), one.signature, signers=signers, namespace=NAMESPACE)
        except RefusedError:
            return False
        return True
