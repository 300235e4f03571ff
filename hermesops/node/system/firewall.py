"""Who may reach the agent's API on this machine: everybody on it, or hermes-node alone.

A table of its own in the kernel, so that no other rule is touched and none survives a reboot. While it is closed, the
vendor's daemon, and with it the proxy, is refused at once; hermes-node's own connections come from an address that
nobody else uses.

Source: nft(8), "add table" succeeds where there is one, so that what follows in a file is one transaction either way.
"""

from hermesops.node.instance.agent.api import SOURCE
from hermesops.node.system import processes

_TABLE = "inet hermes_gate"


def close(port: int, /) -> None:
    """Let nobody but hermes-node connect to a port; connections that are open get no further.

    Raises:
        NotReadyError: The kernel takes no rules.
    """
    _apply(
        f"add table {_TABLE}\ndelete table {_TABLE}\n"
        f"table {_TABLE} {{ chain input {{ type filter hook input priority -10; policy accept;\n"
        f'iifname "lo" tcp dport {port} ip saddr != {SOURCE} reject with tcp reset\n'
        f'iifname "lo" meta nfproto ipv6 tcp dport {port} reject with tcp reset\n'
        "}\n}\n"
    )


def open() -> None:  # noqa: A001 - the opposite of close
    """Let everybody connect again; does nothing where nothing is closed.

    Raises:
        NotReadyError: The kernel takes no rules.
    """
    _apply(f"add table {_TABLE}\ndelete table {_TABLE}\n")


def _apply(rules: str) -> None:
    processes.output(("nft", "-f", "-"), timeout_s=30, stdin=rules.encode())
