"""A caller's certificate in a file, which the caller renews at the relay itself; no worker has a part in it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from hermesops.agents.relay.client import RelayClient
from hermesops.agents.relay.credential import CallerCredential, CallerPem, Signed
from hermesops.base.files.private_file import read_secret, replace_secret
from hermesops.base.network.http import own_client
from hermesops.errors import Hint, UnavailableError, UsageError
from hermesops.vendor.justavps.answer_body import AnswerBody, Deadline, UnreadableAnswerError
from hermesops.wire import strict_json

if TYPE_CHECKING:
    from hermesops.settings.sections import RelaySettings

_WHAT = "certificate for the relay"
_RENEWAL_S = 15.0
_LARGEST_ANSWER = 64 << 10


@dataclass(frozen=True)
class StoredCredential:
    """The files of one caller.

    Attributes:
        given: Key, certificate and authorities (PEM) as an operator gave them; the caller need not be able to write it.
        renewed: The same once they are renewed; may be ``given``. Of two files, the one issued later counts.
        url: Of the relay.
    """

    given: Path
    renewed: Path
    url: str

    def credential(self, clock: Callable[[], float] = time.time) -> CallerCredential:
        """The TLS of this caller; it keeps each renewal.

        Args:
            clock: Seconds since 1970.
        """
        return CallerCredential(self.renew, clock, load=self.load, keep=self.keep)

    def load(self) -> CallerPem:
        """Read the file issued later.

        Raises:
            RefusedError: One is damaged, or may be read by others, or the given one is missing.
        """
        files = [self.given, *([self.renewed] if self.renewed != self.given and self.renewed.exists() else [])]
        pems = [CallerPem.parse(read_secret(file, what=_WHAT), str(file)) for file in files]
        return max(pems, key=lambda pem: pem.span)

    def keep(self, pem: CallerPem) -> None:
        """Write the renewed file, whole or not at all."""
        replace_secret(self.renewed, pem.text)

    async def renew(self, request: str) -> Signed:
        """Have the relay sign another certificate for this caller, which the present one authenticates.

        Args:
            request: A certificate signing request, PEM.

        Raises:
            UnavailableError: The relay does not answer, or refuses: the present certificate may be revoked.
            RefusedError: As ``load``.
        """
        deadline = Deadline(_RENEWAL_S)
        content, context = request.encode(), self.load().context()
        try:
            async with (
                own_client(verify=context, timeout=_RENEWAL_S) as client,
                client.stream("POST", f"{self.url}/certificate", content=content) as response,
            ):
                body = await AnswerBody(response, deadline=deadline, largest=_LARGEST_ANSWER).whole()
        except (httpx.HTTPError, UnreadableAnswerError, OSError) as error:
            raise UnavailableError(f"the relay does not answer: {type(error).__name__}") from error
        if response.status_code != HTTPStatus.OK:
            raise UnavailableError(f"the relay does not renew this caller's certificate: HTTP {response.status_code}")
        return _signed(body)


def _signed(body: bytes) -> Signed:
    try:
        answer = strict_json.parse_object(body, largest=_LARGEST_ANSWER)
        return Signed(str(answer["certificate"]), str(answer["authorities"]))
    except (strict_json.MalformedJSONError, KeyError) as error:
        raise UnavailableError("the relay's answer about the certificate is malformed") from error


def relay_of(settings: "RelaySettings") -> RelayClient:
    """The relay that the settings name, and the certificate by which this process calls it.

    Raises:
        UsageError: A setting is missing.
        RefusedError: The certificate is missing or damaged, or others may read it.
    """
    if not settings.url:
        hint = Hint(("settings", "set", "relay.url", "https://127.0.0.1:8448"))
        raise UsageError("missing relay.url: outside the local world, the relay alone reaches agents", hint=hint)
    if settings.credential_file is None:
        hint = Hint(("relay", "admit", "api", "--request", "FILE", "--to", "FOLDER"))
        raise UsageError(
            "missing relay.credential_file, the certificate by which this process calls the relay", hint=hint
        )
    renewed = settings.renewed_file or settings.credential_file
    stored = StoredCredential(settings.credential_file, renewed, settings.url)
    stored.load()
    return RelayClient(lambda: settings.url, stored.credential().context)
