"""The world's network: one address of this computer and one link per machine, without any other connection.

A machine has one address and one route, to the gateway address. What it may reach there is a list of ports; it is
never forwarded, so it meets no other machine and no internet. Nothing outside the world's own names is touched.
"""

import contextlib
import json
import os
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from hermesops.errors import Hint, RefusedError
from hermesops.localcloud.drivers.nspawn.computer.command import run, succeeds

_POOL = IPv4Network("10.213.0.0/16")
_PREFIX = 22
_NETNS = Path("/run/netns")


def subnets_in_use() -> list[IPv4Network]:
    """Every IPv4 network this computer has an address in or a route to, the default route excepted."""
    networks = []
    for link in json.loads(run(["ip", "-j", "-4", "addr", "show"])):
        networks += [IPv4Network((a["local"], a["prefixlen"]), strict=False) for a in link.get("addr_info", [])]
    for route in json.loads(run(["ip", "-j", "-4", "route", "show", "table", "all"])):
        with contextlib.suppress(ValueError):
            networks.append(IPv4Network(route["dst"], strict=False))
    return [network for network in networks if network.prefixlen]


def pick_subnet(tag: str, taken: Iterable[IPv4Network]) -> IPv4Network:
    """A free part of our pool, the same one again for the same tag where possible.

    Raises:
        RefusedError: All parts are in use on this computer.
    """
    parts = list(_POOL.subnets(new_prefix=_PREFIX))
    first = int(tag, 16) % len(parts)
    used = list(taken)
    for subnet in parts[first:] + parts[:first]:
        if not any(subnet.overlaps(other) for other in used):
            return subnet
    raise RefusedError(
        f"no free part of {_POOL} is left for local machines",
        hint=Hint("remove a local world:", ("local", "down", "--purge")),
    )


MOST_CONNECTIONS = 512
"""Connections that one machine may have to this computer, half-open ones too; an agent has some ten.

The platform's doors have room for 4,096, and wait five seconds for a handshake.
"""


def subnet_of_gateway(name: str) -> IPv4Network | None:
    """The subnet of the world of that name, read off its gateway; None when it has none now."""
    if not _link_exists(f"{name}gw"):
        return None
    links = json.loads(run(["ip", "-j", "-4", "addr", "show", "dev", f"{name}gw"]))
    own = [address["local"] for link in links for address in link.get("addr_info", [])]
    return IPv4Network((own[0], _PREFIX), strict=False) if own else None


class Network:
    """Links, namespaces and firewall of one world.

    Args:
        name: Prefix of everything it makes, at most ten characters.
        subnet: Its addresses: the first is the gateway, machines follow by number.
    """

    def __init__(self, name: str, subnet: IPv4Network, ports: Iterable[int]) -> None:
        self._name = name
        self.subnet = subnet
        self._ports = sorted(set(ports))

    @property
    def gateway(self) -> IPv4Address:
        """The only address of this computer that machines reach; the broker connects from it too."""
        return self.subnet[1]

    def address(self, number: int) -> IPv4Address:
        """The address of a machine in the world's subnet."""
        if not 1 <= number < self.subnet.num_addresses - 2:
            raise RefusedError(f"machine number {number} has no address in {self.subnet}")
        return self.subnet[number + 1]

    def prepare(self) -> None:
        """Make the gateway address and an empty firewall; safe to repeat, machines then have to be let in again."""
        if not _link_exists(f"{self._name}gw"):
            # A pair, because not every kernel has dummy links; the peer only keeps the link up.
            run(["ip", "link", "add", f"{self._name}gw", "type", "veth", "peer", "name", f"{self._name}gp"])
        lines = [
            f"addr replace {self.gateway}/32 dev {self._name}gw",
            f"link set {self._name}gw up",
            f"link set {self._name}gp up",
            # A machine without its link must be unreachable. By the default route, a stranger might answer in its
            # place and be told its bearer (seen: a transparent proxy accepts connections to any address).
            f"route replace unreachable {self.subnet}",
        ]
        run(["ip", "-batch", "-"], stdin="\n".join(lines))
        run(["nft", "-f", "-"], stdin=self._ruleset())

    def _ruleset(self) -> str:
        ports = ", ".join(str(port) for port in self._ports)
        served = f"ip daddr {self.gateway} tcp dport {{ {ports} }}"
        # Behind these ports all machines have one address, so nobody could tell there whose connections they are.
        bounded = f"ct state new add @open {{ ip saddr ct count over {MOST_CONNECTIONS} }} reject with tcp reset"
        allowed = f"{served} {bounded}\n    {served} accept" if ports else ""
        table = f"table inet {self._name}"
        return f"""
{table}
delete {table}
{table} {{
  set machines {{ type ifname . ipv4_addr; }}
  set open {{ type ipv4_addr; size 65535; flags dynamic; }}
  chain inbound {{
    type filter hook input priority -10; policy accept;
    iifname "lo" accept
    iifname != "{self._name}*" ip daddr {self.subnet} drop
    iifname != "{self._name}*" accept
    iifname . ip saddr != @machines drop
    ct state established,related accept
    {allowed}
    drop
  }}
  chain transit {{
    type filter hook forward priority -10; policy accept;
    iifname "{self._name}*" drop
    oifname "{self._name}*" drop
  }}
}}
"""

    def admit(self, link: str, number: int) -> None:
        """Let a link's own address through; others are dropped, so no machine speaks for another."""
        run(["nft", "add", "element", "inet", self._name, "machines", f'{{ "{link}" . {self.address(number)} }}'])

    def expel(self, link: str, number: int) -> None:
        """Revoke the permission of ``admit``; absent is success."""
        element = f'{{ "{link}" . {self.address(number)} }}'
        succeeds(["nft", "delete", "element", "inet", self._name, "machines", element])

    def wiring(self, link: str, number: int) -> str:
        """Shell lines that give a machine a fresh namespace and link: nothing of its last boot's firewall survives."""
        own, peer = self.address(number), f"{link}p"
        # The link goes first: with its namespace alone it would vanish some time later, and its name be taken.
        return f"""ip link del {link} 2>/dev/null
ip netns del {link} 2>/dev/null
ip netns add {link} &&
ip -batch - <<END &&
link add {link} type veth peer name {peer}
link set {peer} netns {link} name eth0
link set {link} up
addr add {self.gateway}/32 dev {link}
route add {own}/32 dev {link} src {self.gateway}
END
ip -n {link} -batch - <<END
addr add {own}/32 dev eth0
link set lo up
link set eth0 up
route add {self.gateway}/32 dev eth0 src {own}
END
"""

    def unwire(self, link: str) -> None:
        """Remove a machine's namespace and link; absent is success."""
        if (_NETNS / link).exists():
            run(["ip", "netns", "del", link])
        if _link_exists(link):
            succeeds(["ip", "link", "del", link])  # its other end may just have vanished with the namespace

    def wired(self) -> set[str]:
        """Names of all machine links and namespaces of this world."""
        prefix = f"{self._name}-"
        links = {link["ifname"] for link in json.loads(run(["ip", "-j", "link", "show"]))}
        spaces = {entry.name for entry in _NETNS.iterdir()} if _NETNS.is_dir() else set()
        return {name for name in links | spaces if name.startswith(prefix)}

    def remove(self) -> None:
        """Remove the gateway and the firewall; machines must be gone."""
        if _link_exists(f"{self._name}gw"):
            run(["ip", "link", "del", f"{self._name}gw"])
        succeeds(["ip", "route", "del", "unreachable", str(self.subnet)])
        if succeeds(["nft", "list", "table", "inet", self._name]):
            run(["nft", "delete", "table", "inet", self._name])
        if _NETNS.is_dir() and not any(_NETNS.iterdir()):
            # ip(8) mounts this folder onto itself the first time and never takes it back.
            while os.path.ismount(_NETNS) and succeeds(["umount", str(_NETNS)]):
                pass


def _link_exists(name: str) -> bool:
    return Path(f"/sys/class/net/{name}").exists()
