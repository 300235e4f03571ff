"""Draws a platform: what it consists of, what is inside what, and who talks to whom."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

_LINE, _PAD, _FONT = 16, 10, 13
_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" font-family="sans-serif">
<title>{title}</title>
<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
<path d="M0 0 8 4 0 8z" fill="#5b6b82"/></marker></defs>
<rect width="100%" height="100%" fill="#ffffff"/>"""
_AREA = '<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="8" fill="{fill}" stroke="#c3ccd9"/>'
_BOX = '<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="4" fill="#ffffff" stroke="#5b6b82"/>'
_TEXT = """<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}"
 fill="#1c2733">{text}</text>"""
_ARROW = '<path d="M{x1} {y1}L{x2} {y2}" fill="none" stroke="#5b6b82" marker-end="url(#end)"/>'
_FILLS = ("#eef2f7", "#e1e8f1")


@dataclass(frozen=True)
class Box:
    """Something that runs or is kept.

    Attributes:
        lines: Its name, and below it what to know of it.
        shows: Components of the program that it stands for.
    """

    x: int
    y: int
    wide: int
    lines: tuple[str, ...]
    shows: tuple[str, ...] = ()

    @property
    def high(self) -> int:
        """As many lines as it has."""
        return len(self.lines) * _LINE + _PAD


@dataclass(frozen=True)
class Area:
    """What boxes are inside of; ``depth`` 1 is inside of another area."""

    x: int
    y: int
    wide: int
    high: int
    name: str
    depth: int = 0


@dataclass(frozen=True)
class Arrow:
    """Who talks to whom, from one point to another, and how."""

    begin: tuple[int, int]
    end: tuple[int, int]
    label: str = ""
    at: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Picture:
    """A picture of a platform."""

    title: str
    wide: int
    high: int
    areas: Sequence[Area] = ()
    boxes: Sequence[Box] = ()
    arrows: Sequence[Arrow] = field(default=())


AWS = Picture(
    "The platform on AWS",
    1000,
    560,
    areas=(
        Area(210, 16, 774, 528, "AWS account of one environment, region of three zones"),
        Area(226, 46, 474, 352, "VPC"),
        Area(242, 76, 442, 152, "subnets with a route to the internet", 1),
        Area(242, 246, 442, 136, "subnets without any route", 1),
    ),
    boxes=(
        Box(16, 96, 160, ("Users' machines", "at another vendor")),
        Box(16, 176, 160, ("Model providers", "vendor's API, Slack …")),
        Box(16, 256, 160, ("Operators", "Session Manager")),
        Box(16, 336, 160, ("Pipelines", "preview and apply")),
        Box(16, 484, 160, ("App and Supabase", "tokens of sign-in")),
        Box(
            330,
            104,
            344,
            (
                "Platform host, one of an autoscaling group",
                "ingest and monitoring :8443 · LLM router :8444",
                "identity :8446 · worker · monitor",
                "made by the roles of ansible/playbooks/platform.yml",
                "from a signed bundle; takes its address last",
            ),
            ("Hosts", "Network"),
        ),
        Box(
            258,
            280,
            198,
            ("PostgreSQL (RDS)", "TLS, standby in production,", "restorable to any second"),
            ("Postgresql",),
        ),
        Box(470, 280, 198, ("Redis (ElastiCache)", "TLS, one user,", "replicas in production"), ("Redis",)),
        Box(
            716,
            76,
            252,
            ("S3: releases", "S3: backups, locked, with versions", "S3: Pulumi's state (bootstrap)"),
            ("Bucket",),
        ),
        Box(
            716, 152, 252, ("Secrets Manager", "passwords change by themselves"), ("Secret", "RedisSecret", "Function")
        ),
        Box(
            716,
            212,
            252,
            ("KMS: a key for each purpose", "IAM: least rights, one boundary"),
            ("Key", "ServiceRole"),
        ),
        Box(716, 272, 252, ("CloudWatch and a budget", "→ queue → Alertmanager"), ("Alarms",)),
        Box(716, 484, 252, ("Cognito: users, operators", "refresh tokens that work once"), ("Cognito",)),
        Box(
            226,
            430,
            474,
            ("Route 53: the domain's zone, with the host's address", "ACM: certificate of the pages of sign-in"),
            ("Zone", "Certificate"),
        ),
    ),
    arrows=(
        Arrow((176, 117), (330, 130), "3 ports", (252, 116)),
        Arrow((330, 154), (176, 197)),
        Arrow((176, 277), (330, 180)),
        Arrow((176, 357), (210, 357)),
        Arrow((176, 505), (716, 505)),
        Arrow((357, 194), (357, 280)),
        Arrow((569, 194), (569, 280)),
        Arrow((674, 120), (716, 106)),
        Arrow((674, 150), (716, 168)),
        Arrow((716, 288), (674, 182)),
    ),
)


LOCAL = Picture(
    "The platform of a local world",
    1000,
    368,
    areas=(
        Area(210, 16, 774, 336, "one computer"),
        Area(226, 46, 160, 290, "local world"),
        Area(410, 46, 558, 290, "hermes-local-platform, a machine of that world, made by the roles of platform.yml"),
    ),
    boxes=(
        Box(16, 118, 160, ("Operators", "hermesops")),
        Box(16, 270, 160, ("Model providers", "or the world's model")),
        Box(242, 84, 128, ("JustAVPS's API", "as the vendor has it")),
        Box(236, 190, 140, ("Agents' machines", "systemd-nspawn")),
        Box(426, 84, 254, ("worker · monitor", "operations and repairs")),
        Box(426, 146, 254, ("ingest and monitoring :8443", "Prometheus, Alertmanager, Loki")),
        Box(426, 208, 254, ("identity :8446", "machines' certificates, orders")),
        Box(426, 270, 254, ("LLM router :8444", "LiteLLM behind a gate")),
        Box(698, 84, 254, ("PostgreSQL :5432", "registry, usage, queue")),
        Box(698, 146, 254, ("pgBackRest", "every change within seconds")),
        Box(698, 208, 254, ("object store :8445, versitygw", "releases, backups, Pulumi's state")),
        Box(698, 270, 254, ("Redis :6380", "TLS, one user")),
    ),
    arrows=(
        Arrow((426, 105), (370, 105)),
        Arrow((176, 150), (410, 150), "TLS, certificate of the computer", (222, 166)),
        Arrow((376, 211), (410, 211)),
        Arrow((426, 291), (176, 291)),
        Arrow((680, 105), (698, 105)),
        Arrow((825, 126), (825, 146)),
        Arrow((825, 188), (825, 208)),
    ),
)


def drawn(picture: Picture) -> str:
    """The picture as SVG."""
    head = _HEAD.format(wide=picture.wide, high=picture.high, title=escape(picture.title))
    return "\n".join([head, *_areas(picture), *_arrows(picture), *_boxes(picture), "</svg>\n"])


def _areas(picture: Picture) -> Iterator[str]:
    for area in picture.areas:
        yield _AREA.format(x=area.x, y=area.y, wide=area.wide, high=area.high, fill=_FILLS[area.depth])
        yield _text(area.x + _PAD, area.y + _LINE + 2, area.name, anchor="start", size=12)


def _boxes(picture: Picture) -> Iterator[str]:
    for box in picture.boxes:
        yield _BOX.format(x=box.x, y=box.y, wide=box.wide, high=box.high)
        for number, line in enumerate(box.lines):
            y = box.y + _LINE * (number + 1)
            yield _text(
                box.x + box.wide // 2, y, line, weight="normal" if number else "bold", size=12 if number else _FONT
            )


def _arrows(picture: Picture) -> Iterator[str]:
    for arrow in picture.arrows:
        (x1, y1), (x2, y2) = arrow.begin, arrow.end
        yield _ARROW.format(x1=x1, y1=y1, x2=x2, y2=y2)
        if arrow.label:
            yield _text(*arrow.at, arrow.label, anchor="start", size=11)


def _text(x: int, y: int, text: str, *, anchor: str = "middle", weight: str = "normal", size: int = _FONT) -> str:
    return _TEXT.format(x=x, y=y, anchor=anchor, size=size, weight=weight, text=escape(text))


def pictures() -> Mapping[str, str]:
    """Pictures of platforms, by their names among the README's."""
    return {"platform-aws": drawn(AWS), "platform-local": drawn(LOCAL)}
