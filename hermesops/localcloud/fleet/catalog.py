"""The vendor's catalog: server types, regions, prices. Pure data.

Prices are the vendor's published ones and nothing is charged here.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerType:
    """A size of machine.

    Attributes:
        price_monthly: US dollars a month.
    """

    name: str
    vcpu: int
    ram_gb: int
    disk_gb: int
    price_monthly: float

    @property
    def backup_price_monthly(self) -> float:
        """The surcharge for backups: a fifth. Source: published SDK 2026.3.6, field descriptions."""
        return round(self.price_monthly * 0.2, 2)

    def price_with(self, *, backups: bool) -> float:
        """US dollars a month, backups included where they are on."""
        return round(self.price_monthly + (self.backup_price_monthly if backups else 0), 2)

    def to_wire(self, *, available: bool = True) -> dict[str, object]:
        """The vendor's shape of one entry of ``GET /server-types``."""
        return {
            "name": self.name,
            "description": f"{self.vcpu} vCPU, {self.ram_gb} GB RAM, {self.disk_gb} GB disk",
            "vcpu": self.vcpu,
            "ram_gb": self.ram_gb,
            "disk_gb": self.disk_gb,
            "cpu_type": "shared",
            "architecture": "x86",
            "price_monthly": self.price_monthly,
            "provider_price_monthly": self.price_monthly,
            "backup_price_monthly": self.backup_price_monthly,
            "available": available,
        }


SERVER_TYPES = {
    kind.name: kind
    for kind in (
        ServerType("starter", 2, 4, 80, 10.0),
        ServerType("basic", 4, 8, 160, 17.5),
        ServerType("pro", 8, 16, 320, 32.5),
        ServerType("power", 12, 24, 480, 46.67),
        ServerType("ultra", 16, 32, 640, 64.17),
    )
}
"""By name. Source: a public client's fallback data, 2026-03-25."""

PROVIDER = "cloud"

REGIONS = {
    "hel1": {"id": "hel1", "name": "Helsinki", "country": "FI", "city": "Helsinki"},
    "nbg1": {"id": "nbg1", "name": "Nuremberg", "country": "DE", "city": "Nuremberg"},
}
