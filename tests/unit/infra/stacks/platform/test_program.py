"""What the program of the platform registers and exports on AWS. Mocks show wiring alone."""

import pulumi
import pytest

from hermesops.infra.stacks.platform.outputs import platform_outputs
from tests.support.platform.environments import ENVIRONMENTS, GOLDEN, golden, program_of, run_of, spec_of
from tests.support.platform.mock_aws import mocked, run


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
    assert outputs.auth_issuer == "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_AbCdEfGhI"
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
    (route,) = run.judged.of("ec2.Route")
    in_stores = {
        resource.inputs["subnetId"]
        for resource in run.judged.of("ec2.RouteTableAssociation")
        if resource.inputs["routeTableId"] != route.inputs["routeTableId"]
    }

    assert in_stores == {"stores-a-id", "stores-b-id", "stores-c-id"}
    for kind in ("rds.SubnetGroup", "elasticache.SubnetGroup"):
        assert set(run.one(kind).inputs["subnetIds"]) == in_stores


def test_zones_differ_and_blocks_of_addresses_do_not_overlap() -> None:
    subnets = list(run_of("staging").judged.of("ec2.Subnet"))

    assert len({resource.inputs["cidrBlock"] for resource in subnets}) == len(subnets) == 6
    assert {resource.inputs["availabilityZone"] for resource in subnets} == {f"eu-central-1{zone}" for zone in "abc"}


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
