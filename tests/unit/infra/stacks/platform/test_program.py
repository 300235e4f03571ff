"""What the program of the platform registers and exports on AWS. Mocks show wiring alone."""

import json
import re
from dataclasses import replace

import pulumi
import pytest

from hermesops.infra.stacks.platform.outputs import platform_outputs
from hermesops.infra.stacks.platform.spec import UsersSpec
from tests.support.platform.environments import (
    ENVIRONMENTS,
    GOLDEN,
    golden,
    program_of,
    run_of,
    spec_of,
    variables_of,
)
from tests.support.platform.mock_aws import mocked, run
from tests.support.releases.role_files import defaults_of, rendered


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_an_environments_resources_are_those_that_were_reviewed(environment: str) -> None:
    """After a change that is wanted: python -m tests.support.platform.environments, and read what it wrote."""
    assert golden(run_of(environment)) == (GOLDEN / f"{environment}.txt").read_text()


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_a_platform_exports_what_its_users_read(environment: str) -> None:
    outputs = platform_outputs(run_of(environment).exports)

    assert outputs.database_host == "postgresql.rds.internal"
    assert outputs.database_port == "5432"
    assert outputs.pulumi_state_url == f"s3://hermesops-{environment}-state?region=eu-central-1"
    assert outputs.auth_issuer == "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_Ofcognito"
    assert outputs.auth_audience == "app-id,operator-id"
    assert outputs.object_store_endpoint == ""


def test_the_program_works_in_its_own_account_and_region_alone() -> None:
    provider = next(resource for resource in run_of("staging").resources if resource.type == "pulumi:providers:aws")

    assert provider.inputs["region"] == "eu-central-1"
    assert provider.inputs["allowedAccountIds"] == '["111122223333"]'


def test_everything_at_aws_is_made_by_that_provider() -> None:
    """Else it would be made by whatever credentials and region the process has."""
    with mocked() as monitor:
        pulumi.runtime.test(_staging)()  # type: ignore[no-untyped-call]  # the SDK's is untyped
        requests = [request for request in monitor.requests if request.type.startswith("aws:")]

    assert requests
    assert all("pulumi:providers:aws::aws" in request.provider for request in requests)


def _staging() -> None:
    exported = pulumi.export
    pulumi.export = lambda *_: None
    try:
        program_of(spec_of("staging"))()
    finally:
        pulumi.export = exported


def test_only_a_certificate_of_cognitos_pages_is_in_another_region() -> None:
    elsewhere = {
        resource.kind for resource in run_of("staging").resources if resource.inputs.get("region", "") == "us-east-1"
    }

    assert elsewhere == {"acm.Certificate", "acm.CertificateValidation"}


def test_stores_are_reached_by_hosts_alone() -> None:
    run = run_of("production")

    for use, port in (("postgresql", 5432), ("redis", 6379)):
        (rule,) = [
            resource
            for resource in run.judged.of("vpc.SecurityGroupIngressRule")
            if resource.inputs["securityGroupId"] == f"{use}-id"
        ]
        assert rule.inputs["referencedSecurityGroupId"] == "hosts-id"
        assert (rule.inputs["fromPort"], rule.inputs["toPort"]) == (port, port)


def test_stores_are_in_subnets_without_a_way_to_the_internet() -> None:
    run = run_of("production")
    with_way = {route.inputs["routeTableId"] for route in run.judged.of("ec2.Route")}
    in_stores = {
        resource.inputs["subnetId"]
        for resource in run.judged.of("ec2.RouteTableAssociation")
        if resource.inputs["routeTableId"] not in with_way
    }

    assert in_stores == {"stores-a-id", "stores-b-id", "stores-c-id"}
    for kind in ("rds.SubnetGroup", "elasticache.SubnetGroup"):
        assert set(run.one(kind).inputs["subnetIds"]) == in_stores


def test_zones_differ_and_blocks_of_addresses_do_not_overlap() -> None:
    subnets = list(run_of("staging").judged.of("ec2.Subnet"))

    assert len({resource.inputs["cidrBlock"] for resource in subnets}) == len(subnets) == 9
    assert {resource.inputs["availabilityZone"] for resource in subnets} == {f"eu-central-1{zone}" for zone in "abc"}


def test_without_an_address_of_pages_nobody_is_served() -> None:
    spec = spec_of("staging", users=False)
    done = run(program_of(spec), spec.place)

    kinds = {resource.kind for resource in done.resources}
    assert not {kind for kind in kinds if kind.startswith("lb.")}
    assert done.exports["links"] == {}
    assert not [resource for resource in done.resources if "balancer" in resource.name or resource.name == "pages"]
    assert [pool.name for pool in done.judged.of("cognito.UserPool")] == ["cognito"]
    assert not any("hermes_api" in json.dumps(resource.inputs) for resource in done.judged.of("iam.RolePolicy"))


def test_only_the_load_balancer_reaches_the_door_and_it_reaches_nothing_else() -> None:
    from hermesops.infra.stacks.platform.aws import network  # noqa: PLC0415 - imports pulumi_aws, which takes a second

    run = run_of("production")
    to_door = [
        rule.inputs.get("referencedSecurityGroupId", rule.inputs.get("cidrIpv4"))
        for rule in run.judged.of("vpc.SecurityGroupIngressRule")
        if rule.inputs["fromPort"] <= network.DOOR <= rule.inputs["toPort"]
    ]
    ways = [
        (rule.inputs["referencedSecurityGroupId"], rule.inputs["fromPort"], rule.inputs["toPort"])
        for rule in run.judged.of("vpc.SecurityGroupEgressRule")
        if rule.inputs["securityGroupId"] == "balancer-id"
    ]

    assert to_door == ["balancer-id"]
    assert ways == [("hosts-id", network.DOOR, network.DOOR)]
    assert run.one("lb.LoadBalancer").inputs["securityGroups"] == ["balancer-id"]
    assert run.one("lb.TargetGroup").inputs["port"] == network.DOOR
    assert run.one("autoscaling.Group").inputs["targetGroupArns"] == [
        run.one("lb.Listener").inputs["defaultActions"][0]["targetGroupArn"]
    ]


def test_the_door_believes_the_subnets_of_the_load_balancer_alone_about_addresses() -> None:
    from hermesops.infra.stacks.platform.aws import network  # noqa: PLC0415 - as above

    run = run_of("production")
    balancers = set(run.one("lb.LoadBalancer").inputs["subnets"])
    blocks = {subnet.inputs["cidrBlock"] for subnet in run.judged.of("ec2.Subnet") if f"{subnet.name}-id" in balancers}
    variables = variables_of(run)

    assert len(blocks) == 3
    assert set(variables["hermes_platform_edge_proxies"]) == blocks
    assert {port: set(networks) for port, networks in variables["hermes_base_open_ports_from"].items()} == {
        str(network.DOOR): blocks
    }
    assert network.DOOR not in variables["hermes_base_open_ports"]
    assert defaults_of("hermes_platform_edge")["hermes_platform_edge_port"] == network.DOOR


def test_whoever_waits_behind_the_load_balancer_gives_up_first_and_its_connections_are_closed_by_itself() -> None:
    """Else a stream without a word is cut, and a request meets a connection that nginx is closing: 502."""
    run = run_of("production")
    given = {f"hermes_platform_edge_{name}": variables_of(run)[f"hermes_platform_edge_{name}"] for name in _OF_DOOR}
    text = rendered("hermes_platform_edge", "edge-nginx.conf.j2", given)
    waits = [int(seconds) for seconds in re.findall(r"proxy_read_timeout (\d+)s;", text)]
    (kept,) = [int(seconds) for seconds in re.findall(r"keepalive_timeout (\d+)s;", text)]

    idle = run.one("lb.LoadBalancer").inputs["idleTimeout"]
    assert len(waits) == 4, waits  # API, agents' calls, the console, and Prometheus
    assert max(waits) < idle < kept


_OF_DOOR = ("proxies", "health_host", "keepalive_seconds", "has_connections", "console_host", "console_networks")


def test_the_load_balancer_has_a_certificate_for_its_name_which_leads_to_it() -> None:
    run = run_of("staging")
    certificate = run.one("acm.Certificate", "balancer-certificate")
    record = run.one("route53.Record", "balancer-name")

    assert certificate.inputs["domainName"] == record.inputs["name"] == "app.staging.hermes.example"
    assert certificate.inputs["validationMethod"] == "DNS"
    assert record.inputs["aliases"][0]["name"] == "hermesops-staging.eu-central-1.elb.amazonaws.com"
    assert run.exports["links"] == {
        "chat_page": "https://app.staging.hermes.example/hermes-max/chat",
        "api": "https://app.staging.hermes.example/api/hermes",
        "agents": "https://app.staging.hermes.example/mcp",
        "console": "https://console.staging.hermes.example/console/",
    }


def test_lines_about_users_are_deleted_after_as_many_days_as_the_file_says() -> None:
    spec = spec_of("staging")
    sizes = spec.sizes.model_copy(update={"users": UsersSpec.model_validate({"log_days": 7})})
    done = run(program_of(replace(spec, sizes=sizes)), spec.place)

    (rule,) = done.one("s3.BucketLifecycleConfiguration", "access-logs").inputs["rules"]
    assert rule["expiration"] == {"days": 7}
    assert rule["noncurrentVersionExpiration"] == {"noncurrentDays": 1}
    assert (
        done.one("lb.LoadBalancer").inputs["accessLogs"]["bucket"]
        == done.one("s3.Bucket", "access-logs").inputs["bucket"]
    )


def test_passwords_are_not_in_what_pulumi_keeps() -> None:
    run = run_of("production")

    assert "password" not in run.one("rds.Instance").inputs
    assert run.one("secretsmanager.SecretVersion").inputs["secretString"].endswith('"password": ""}')
    assert all("passwords" not in resource.inputs for resource in run.judged.of("elasticache.User"))


def test_a_failing_assertion_about_an_output_fails_the_test() -> None:
    """Without the SDK's own decorator, which ``run`` uses, it would pass in silence."""

    def program() -> None:
        def wrong(_: object) -> None:
            raise AssertionError("noticed")

        pulumi.Output.from_input("value").apply(wrong)

    with pytest.raises(Exception, match="noticed"):
        run(program)


def test_a_question_to_aws_in_the_program_fails_the_test() -> None:
    """A preview would otherwise depend on what AWS says today."""

    def program() -> None:
        import pulumi_aws  # noqa: PLC0415 - only this test calls it

        pulumi_aws.get_caller_identity_output().account_id.apply(str)

    with pytest.raises(Exception, match="the program asked for"):
        run(program)
