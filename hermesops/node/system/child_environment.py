"""The environment of programs that hermes-node starts: the same whoever started it, so nothing of his comes along."""

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/root",
}
"""Of the system's own tools, which need no more."""
