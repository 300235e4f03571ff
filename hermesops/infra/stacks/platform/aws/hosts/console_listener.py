"""The operators' console at the load balancer: a name of its own, which named networks alone reach.

The door of the hosts asks for the same networks again, by the address that the load balancer saw: these rules keep
requests away from the host, and do not have to be the only ones that do.

Source: AWS's guide "Application Load Balancers": listener rules, server name indication, quotas.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
from pulumi import Input, ResourceOptions

from hermesops.infra.stacks.platform.aws.dns import Certificate, CertificateArgs
from hermesops.infra.stacks.platform.balancer_policies import FROM_EVERYWHERE
from hermesops.infra.stacks.platform.served_console import EVERY_NETWORK
from hermesops.infra.stacks.platform.spec import Place

_IN_RULE = 4
"""Networks in a rule, which takes five values, its name among them."""

_LAST = 100


@dataclass(frozen=True)
class ConsoleListenerArgs:
    """A name of a load balancer for operators.

    Attributes:
        host: The name in DNS.
        networks: Networks that may reach it; empty for every one.
        listener_arn: ARN of the load balancer's listener.
        target_group_arn: ARN of the group that hosts are registered in.
        balancer_name: DNS name of the load balancer.
        balancer_zone: Route 53's zone of that name.
        zone_id: Of the zone that ``host`` is in.
    """

    place: Place
    host: str
    networks: Sequence[str]
    listener_arn: Input[str]
    target_group_arn: Input[str]
    balancer_name: Input[str]
    balancer_zone: Input[str]
    zone_id: Input[str]


class ConsoleListener(pulumi.ComponentResource):
    """A certificate, a record, and rules by which some networks reach the hosts' door under a name, and no others."""

    def __init__(self, name: str, args: ConsoleListenerArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("hermesops:platform:ConsoleListener", name, None, opts)
        self._name, self._args, self._children = name, args, ResourceOptions(parent=self)
        place = args.place
        certificate = Certificate(
            f"{name}-certificate", CertificateArgs(place, args.host, args.zone_id, place.region), self._children
        )
        refusal = self._refusal()
        self._ways()
        # Its name leads here last, so that no moment is without the rule that refuses.
        aws.lb.ListenerCertificate(
            name, listener_arn=args.listener_arn, certificate_arn=certificate.arn, opts=self._children
        )
        aws.route53.Record(
            f"{name}-name",
            zone_id=args.zone_id,
            name=args.host,
            type="A",
            aliases=[{"name": args.balancer_name, "zone_id": args.balancer_zone, "evaluate_target_health": False}],
            opts=ResourceOptions(parent=self, depends_on=[refusal]),
        )
        self.register_outputs({})

    def _ways(self) -> None:
        """One rule for every network, or one for each four networks."""
        networks, forward = self._args.networks, {"type": "forward", "target_group_arn": self._args.target_group_arn}
        if not networks:
            self._rule(FROM_EVERYWHERE, 1, [EVERY_NETWORK], forward)
        for number, first in enumerate(range(0, len(networks), _IN_RULE), start=1):
            self._rule(f"{self._name}-from-networks-{number}", number, networks[first : first + _IN_RULE], forward)

    def _refusal(self) -> aws.lb.ListenerRule:
        refusal = {"content_type": "text/plain", "message_body": "this is not served here", "status_code": "404"}
        return self._rule(f"{self._name}-refused", _LAST, [], {"type": "fixed-response", "fixed_response": refusal})

    def _rule(
        self, name: str, priority: int, networks: Sequence[str], action: Mapping[str, object]
    ) -> aws.lb.ListenerRule:
        conditions: list[dict[str, object]] = [{"host_header": {"values": [self._args.host]}}]
        conditions += [{"source_ip": {"values": list(networks)}}] if networks else []
        return aws.lb.ListenerRule(
            name,
            listener_arn=self._args.listener_arn,
            priority=priority,
            conditions=conditions,  # type: ignore[arg-type]  # plain mappings, as the SDK takes them
            actions=[dict(action)],  # type: ignore[list-item]  # as above
            tags=self._args.place.tags,
            opts=self._children,
        )
