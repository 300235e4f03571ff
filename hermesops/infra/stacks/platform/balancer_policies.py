"""Policies of the way of users into a platform on AWS: the load balancer, its logs, and the hosts' door. Pure."""

from hermesops.infra.stacks.platform.policy_check import Check, Program, group_of, is_not, lacks
from hermesops.infra.stacks.registered import Registered

DOOR, _BALANCER = 8449, "balancer"
"""Port of the hosts' door, and the security group from which alone it is reached."""

_EXPIRES = frozenset({"access-logs"})
"""Buckets whose objects are lines about users: none is kept for ever."""

_TLS = "ELBSecurityPolicy-TLS13-1-3-2021-06"
"""TLS 1.3 and nothing older."""


def _opens_door(_: Program, resource: Registered) -> bool:
    first, last = resource.inputs.get("fromPort", 0), resource.inputs.get("toPort", 65535)
    source = str(resource.inputs.get("referencedSecurityGroupId", "")).removesuffix("-id")
    is_of_hosts = group_of(resource) == "hosts" and int(first) <= DOOR <= int(last)
    return is_of_hosts and source != _BALANCER


def _unlogged(_: Program, resource: Registered) -> bool:
    logs = resource.inputs.get("accessLogs") or {}
    return not (logs.get("enabled") and logs.get("bucket"))


def _never_expires(program: Program, resource: Registered) -> bool:
    lifecycle = program.beside(resource, "s3.BucketLifecycleConfiguration")
    rules = lifecycle.inputs["rules"] if lifecycle else []
    is_bounded = any(rule.get("status") == "Enabled" and rule.get("expiration", {}).get("days") for rule in rules)
    return resource.name in _EXPIRES and not is_bounded


CHECKS_OF_BALANCER = (
    Check("closed", ("vpc.SecurityGroupIngressRule",), "opens the door beside the load balancer", _opens_door),
    Check("protected", ("lb.LoadBalancer",), "can be deleted at AWS", lacks("enableDeletionProtection")),
    Check("TLS only", ("lb.Listener",), "takes requests in the clear", is_not("protocol", "HTTPS")),
    Check("TLS only", ("lb.Listener",), "takes TLS older than 1.3", is_not("sslPolicy", _TLS)),
    Check("TLS only", ("lb.TargetGroup",), "passes requests on in the clear", is_not("protocol", "HTTPS")),
    Check(
        "known users",
        ("lb.LoadBalancer",),
        "lets clients say from which address they come",
        is_not("xffHeaderProcessingMode", "append"),
    ),
    Check("known users", ("lb.LoadBalancer",), "passes malformed headers on", lacks("dropInvalidHeaderFields")),
    Check("judged", ("s3.Bucket",), "is kept for ever", _never_expires),
    Check("judged", ("lb.LoadBalancer",), "keeps no access log", _unlogged),
)
"""All of which have to hold; ``policies`` has them in its own."""
