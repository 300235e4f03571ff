"""The computer's part of sshd: a host key, the machine's own address, and one network admitted by the firewall.

This module is the ``Ssh`` of ``node.ports`` on a real machine; it must not decide anything.

Source: nft(8), sets with timeouts; ssh-keygen(1).
"""

import os
from ipaddress import ip_network
from pathlib import Path

from hermesops.wire import processes
from hermesops.wire.addresses import own_address as own_address  # noqa: PLC0414 - of the port Ssh, as is what stands here

PORT = 22
_TIME_S = 30.0
_TABLE = "inet hermes"
_SETS = {4: "break_glass_ipv4", 6: "break_glass_ipv6"}
"""Of role ``hermes_base``: their addresses alone reach the port, and open connections of others end as well."""


def make_key() -> tuple[bytes, bytes]:
    """A fresh host key, and the public half as ``ssh-ed25519 AAAA…`` with a newline.

    Raises:
        NotReadyError: ssh-keygen is missing, or makes none.
    """
    import tempfile  # noqa: PLC0415 - resident processes do not hold it, see node.system.resident

    with tempfile.TemporaryDirectory(dir="/run" if os.geteuid() == 0 else None) as folder:
        file = Path(folder, "key")
        words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file)
        processes.output(words, timeout_s=_TIME_S)
        public = file.with_suffix(".pub").read_text(encoding="ascii")
        return file.read_bytes(), f"{' '.join(public.split()[:2])}\n".encode()


def let_in(network: str, seconds: int) -> None:
    """Let a network reach sshd; the kernel itself ends that after so many seconds. A repetition does not prolong it.

    Raises:
        NotReadyError: The firewall's rules are those of before this.
    """
    name = _SETS[ip_network(network).version]
    _apply(f"add element {_TABLE} {name} {{ {network} timeout {seconds}s }}\n")


def shut_out() -> None:
    """Let nobody reach sshd; does nothing where nobody does.

    Raises:
        NotReadyError: The firewall's rules are those of before this.
    """
    _apply("".join(f"flush set {_TABLE} {name}\n" for name in _SETS.values()))


def _apply(rules: str) -> None:
    processes.output(("nft", "-f", "-"), timeout_s=_TIME_S, stdin=rules.encode())
