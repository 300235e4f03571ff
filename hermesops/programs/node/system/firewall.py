"""Access to the agent's API on this machine: all processes, or hermes-node alone.

A table of its own in the kernel, so that no other rule is touched and none survives a reboot. While it is closed, the
vendor's daemon, and with it the proxy, is refused at once; hermes-node's own connections come from an address that
nobody else uses.

Source: nft(8), "add table" succeeds where there is one, so that what follows in a file is one transaction either way.
"""

from hermesops.programs.node.instance.agent.api import SOURCE
from hermesops.wire import processes

_TABLE = "inet hermes_gate"


def close(port: int, /) -> None:
    """Let only hermes-node connect to a port; open connections are cut.

    Raises:
        NotReadyError: The kernel refuses the rules.
    """
    _apply(
        f"add table {_TABLE}\ndelete table {_TABLE}\n"
        f"table {_TABLE} {{ chain input {{ type filter hook input priority -10; policy accept;\n"
        f'iifname "lo" tcp dport {port} ip saddr != {SOURCE} reject with tcp reset\n'
        f'iifname "lo" meta nfproto ipv6 tcp dport {port} reject with tcp reset\n'
        "}\n}\n"
    )


def open() -> None:  # noqa: A001 - the opposite of close
    """Allow all connections again; does nothing if the port is open.

    Raises:
        NotReadyError: The kernel refuses the rules.
    """
    _apply(f"add table {_TABLE}\ndelete table {_TABLE}\n")


def _apply(rules: str) -> None:
    processes.output(("nft", "-f", "-"), timeout_s=30, stdin=rules.encode())
