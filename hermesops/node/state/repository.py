"""Where an instance's backups are and what opens it, as hermes-node is told; the secrets stay in memory.

Pure.
"""

import re
from dataclasses import dataclass, field

from hermesops.node.errors import BadRequestError
from hermesops.node.untrusted import strict_json
from hermesops.node.untrusted.json_fields import exactly, listed, mapping, matching, one_line, string

MAX_BYTES = 256 * 1024
VERSION = 1

_PLACE = re.compile(r"s3:https?://[A-Za-z0-9.\[\]:_-]{1,256}/[A-Za-z0-9._/-]{1,512}|/[A-Za-z0-9._/-]{1,512}")
_SECRET = re.compile(r"[!-~]{1,512}")
_KEY = re.compile(r"[!-~]{0,512}")
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/=-]{0,127}")
_SNAPSHOT = re.compile(r"|latest|[0-9a-f]{8,64}")


@dataclass(frozen=True)
class Repository:
    """One instance's repository.

    Attributes:
        place: ``s3:http(s)://HOST[:PORT]/BUCKET/PREFIX``, or a folder.
        password: Encrypts everything in it.
        access_key: Of the object store; empty for a folder.
        tags: What a new snapshot is marked with.
        snapshot: Which one is restored.
        ca: Certificate that the object store's own must be signed by, in PEM; empty for those that the machine trusts.
    """

    place: str
    password: str = field(repr=False)
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    tags: tuple[str, ...] = ()
    snapshot: str = ""
    ca: str = field(default="", repr=False)

    @classmethod
    def from_json(cls, data: bytes) -> "Repository":
        """Read what was uploaded.

        Raises:
            BadRequestError: It is not that; the message names the field, never its value.
        """
        try:
            fields = mapping(strict_json.parse(data), "payload")
        except ValueError:
            raise BadRequestError("payload: not JSON") from None
        exactly(
            fields,
            "payload",
            required={"version", "repository", "password"},
            optional={"access_key", "secret_key", "tags", "snapshot", "ca"},
        )
        if fields["version"] != VERSION:
            raise BadRequestError(f"version: this hermes-node knows {VERSION}")
        place = matching(fields["repository"], _PLACE, "repository")
        if ".." in place.split("/"):
            raise BadRequestError("repository: not of the expected form")
        return cls(
            place=place,
            password=matching(fields["password"], _SECRET, "password"),
            access_key=matching(fields.get("access_key", ""), _KEY, "access_key"),
            secret_key=matching(fields.get("secret_key", ""), _KEY, "secret_key"),
            tags=tuple(matching(one_line(tag, "tags"), _TAG, "tags") for tag in listed(fields.get("tags", []), "tags")),
            snapshot=matching(fields.get("snapshot", ""), _SNAPSHOT, "snapshot"),
            ca=string(fields.get("ca", ""), "ca"),
        )
