"""How large a machine's data volume shall be, as its order said. Pure."""

import re

from hermesops.node.protocol import DATA_VARIABLE

_LINE = re.compile(rf"^{DATA_VARIABLE}='?([0-9]{{1,6}})'?$", re.MULTILINE)


def wanted_gb(environment: bytes) -> int:
    """Gigabytes that the variables of a machine's order name; 0 for no volume.

    Args:
        environment: Content of the vendor's file of variables, as a shell reads it.
    """
    found = _LINE.findall(environment.decode(errors="replace"))
    return int(found[-1]) if found else 0


def with_gb(environment: bytes, gigabytes: int) -> bytes:
    """The same variables with another size, in place of the one they name or at their end."""
    line = f"{DATA_VARIABLE}='{gigabytes}'"
    text = environment.decode(errors="surrogateescape")
    if _LINE.search(text):
        return _LINE.sub(line, text).encode(errors="surrogateescape")
    ended = text if not text or text.endswith("\n") else f"{text}\n"
    return f"{ended}{line}\n".encode(errors="surrogateescape")
