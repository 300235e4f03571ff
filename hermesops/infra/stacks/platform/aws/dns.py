"""Names: the zone of the platform's domain, and a certificate of Amazon's for a name in it."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
from pulumi import Input, Output, ResourceOptions

from hermesops.infra.stacks.platform.spec import Place

_TTL_S = 300
_SHORT_TTL_S = 60


@dataclass(frozen=True)
class ZoneArgs:
    """A zone.

    Attributes:
        domain: Its name; hosts are reached under it.
        address: Public address of the hosts.
    """

    place: Place
    domain: str
    address: Input[str]


class Zone(pulumi.ComponentResource):
    """Public DNS zone, protected: a new zone would have other name servers, without a delegation.

    Attributes:
        zone_id: Route 53's id of the zone.
        name_servers: Name servers for the delegation from the parent domain.
        apex: The record of the domain itself; Cognito asks for it before it takes a name below.
    """

    zone_id: Output[str]
    name_servers: Output[Sequence[str]]
    apex: aws.route53.Record

    def __init__(self, name: str, args: ZoneArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("hermesops:platform:Zone", name, None, opts)
        children = ResourceOptions(parent=self)
        zone = aws.route53.Zone(
            name,
            name=args.domain,
            comment=f"hermesops {args.place.environment}",
            force_destroy=False,
            tags=args.place.tags,
            opts=ResourceOptions(parent=self, protect=True, retain_on_delete=True),
        )
        self.apex = aws.route53.Record(
            name,
            zone_id=zone.zone_id,
            name=args.domain,
            type="A",
            ttl=_SHORT_TTL_S,
            records=[args.address],
            opts=children,
        )
        aws.route53.Record(
            f"{name}-issuers",
            zone_id=zone.zone_id,
            name=args.domain,
            type="CAA",
            ttl=_TTL_S,
            records=['0 issue "amazon.com"'],
            opts=children,
        )
        self.zone_id, self.name_servers = zone.zone_id, zone.name_servers
        self.register_outputs({"zone_id": self.zone_id, "name_servers": self.name_servers})


@dataclass(frozen=True)
class CertificateArgs:
    """A certificate.

    Attributes:
        domain: For which name.
        zone_id: Of the zone in which the name is proved.
        region: Where it is used; Cognito's pages take theirs from ``us-east-1``.
    """

    place: Place
    domain: str
    zone_id: Input[str]
    region: str


class Certificate(pulumi.ComponentResource):
    """A certificate of ACM, renewed by it as long as its record stands.

    Attributes:
        arn: Of the certificate, known once it is issued.
    """

    arn: Output[str]

    def __init__(self, name: str, args: CertificateArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("hermesops:platform:Certificate", name, None, opts)
        children = ResourceOptions(parent=self)
        certificate = aws.acm.Certificate(
            name,
            domain_name=args.domain,
            validation_method="DNS",
            key_algorithm="EC_prime256v1",
            region=args.region,
            tags=args.place.tags,
            opts=children,
        )
        proof = certificate.domain_validation_options[0]
        record = aws.route53.Record(
            f"{name}-proof",
            zone_id=args.zone_id,
            name=proof.resource_record_name,
            type=proof.resource_record_type,
            ttl=_TTL_S,
            records=[proof.resource_record_value],
            opts=children,
        )
        issued = aws.acm.CertificateValidation(
            name,
            certificate_arn=certificate.arn,
            validation_record_fqdns=[record.fqdn],
            region=args.region,
            opts=children,
        )
        self.arn = issued.certificate_arn
        self.register_outputs({"arn": self.arn})
