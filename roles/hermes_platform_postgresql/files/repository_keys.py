#!/usr/bin/python3 -I
"""Writes the keys of pgBackRest's repository into a file that root and PostgreSQL alone can read.

The argument is the file. Standard input is JSON with ``access_key``, ``secret_key`` and ``cipher_key``; an empty key of
the bucket stays as it is, or is the one that the object store left on this host; an empty cipher key stays as it is, or
is made. Prints ``changed`` when it wrote. A cipher key that is there is never replaced: nothing could be restored.
"""

import configparser
import grp
import json
import os
import secrets
import sys
from pathlib import Path

LEFT_BY_THE_OBJECT_STORE = Path("/etc/hermes-platform/secrets/object-store/postgresql")
NAMES = {"access_key": "repo1-s3-key", "secret_key": "repo1-s3-key-secret", "cipher_key": "repo1-cipher-pass"}
KEY_BYTES = 48


def main() -> None:
    """Write the file, unless it says the same."""
    file, given = Path(sys.argv[1]), json.load(sys.stdin)
    held = read(file)
    keys = {name: given[name] or held.get(NAMES[name], "") for name in NAMES}
    if held.get(NAMES["cipher_key"]) not in (None, "", keys["cipher_key"]):
        sys.exit("this host encrypts backups with another key; nothing older could be restored with the given one")
    if not given["access_key"] and LEFT_BY_THE_OBJECT_STORE.exists():
        profile = configparser.ConfigParser(interpolation=None)
        profile.read(LEFT_BY_THE_OBJECT_STORE)
        keys["access_key"] = profile["default"]["aws_access_key_id"]
        keys["secret_key"] = profile["default"]["aws_secret_access_key"]
    if not keys["access_key"]:
        sys.exit("no key of the bucket: give one, or apply role hermes_platform_object_store first")
    keys["cipher_key"] = keys["cipher_key"] or secrets.token_urlsafe(KEY_BYTES)
    wanted = "[global]\n" + "".join(f"{NAMES[name]}={key}\n" for name, key in keys.items())
    if not file.exists() or file.read_text() != wanted:
        write(file, wanted)
        sys.stdout.write("changed\n")


def read(file: Path) -> dict[str, str]:
    """The keys in the file; none when there is none."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(file)
    return dict(parser["global"]) if parser.has_section("global") else {}


def write(file: Path, text: str) -> None:
    """Replace the file at once: half of one would be a lost key."""
    draft = file.with_name(f".{file.name}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    os.fchown(descriptor, 0, grp.getgrnam("postgres").gr_gid)
    os.fchmod(descriptor, 0o640)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    draft.rename(file)


if __name__ == "__main__":
    main()
