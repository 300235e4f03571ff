#!/usr/bin/python3 -I
"""Makes the password of Redis's one user, once, and the list of users that has its hash; prints what it wrote.

Arguments: the file of the password, which root alone can read, and the file of users, which Redis reads, too.
User ``default``, whom Redis takes everybody for who says nothing, is off. ``hermesops`` uses keys and channels, and
neither configures nor empties the server.
"""

import grp
import hashlib
import os
import secrets
import sys
from pathlib import Path

PASSWORD_BYTES = 32
USERS = """user default off resetkeys resetchannels -@all
user hermesops on #{hash} ~* &* +@all -@admin -@dangerous +info +client|setname +client|id
"""


def main() -> None:
    """Make both files."""
    password, users = Path(sys.argv[1]), Path(sys.argv[2])
    if not password.exists():
        write(password, secrets.token_urlsafe(PASSWORD_BYTES), 0, 0o600)
        sys.stdout.write("password\n")
    wanted = USERS.format(hash=hashlib.sha256(password.read_bytes()).hexdigest())
    if not users.exists() or users.read_text() != wanted:
        write(users, wanted, grp.getgrnam("redis").gr_gid, 0o640)
        sys.stdout.write("users\n")


def write(file: Path, text: str, group: int, mode: int) -> None:
    """Replace a file at once."""
    draft = file.with_name(f".{file.name}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    os.fchown(descriptor, 0, group)
    os.fchmod(descriptor, mode)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    draft.rename(file)


if __name__ == "__main__":
    main()
