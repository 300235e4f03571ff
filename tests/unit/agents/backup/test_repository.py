"""The policy that real S3 is given, word for word; what it means is tried in ``contract/test_object_store``."""

import json

from hermesops.agents.backup.store.repository import Bucket, payload_of, policy_of
from hermesops.model.ids import InstanceId
from hermesops.model.recovery.backup import Credential

BUCKET = Bucket("fleet-backups", "eu-north-1")
REPOSITORY = BUCKET.repository("production", InstanceId("0b1c"))


def test_the_policy_of_an_instance() -> None:
    own = "arn:aws:s3:::fleet-backups/production/0b1c"
    assert policy_of(REPOSITORY) == {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "ReadAndAdd",
                "Effect": "Allow",
                "Action": ["s3:GetObject", "s3:PutObject"],
                "Resource": [f"{own}/*"],
            },
            {"Sid": "Unlock", "Effect": "Allow", "Action": ["s3:DeleteObject"], "Resource": [f"{own}/locks/*"]},
            {
                "Sid": "ListItsOwn",
                "Effect": "Allow",
                "Action": ["s3:ListBucket"],
                "Resource": ["arn:aws:s3:::fleet-backups"],
                "Condition": {"StringLike": {"s3:prefix": ["production/0b1c/*"]}},
            },
            {
                "Sid": "FindTheRegion",
                "Effect": "Allow",
                "Action": ["s3:GetBucketLocation"],
                "Resource": ["arn:aws:s3:::fleet-backups"],
            },
        ],
    }


def test_the_file_that_a_node_is_handed() -> None:
    document = json.loads(payload_of(REPOSITORY, "word", Credential("key", "secret"), tags=["why=daily"]))
    assert document == {
        "version": 1,
        "repository": "s3:https://s3.eu-north-1.amazonaws.com/fleet-backups/production/0b1c",
        "password": "word",
        "access_key": "key",
        "secret_key": "secret",
        "tags": ["why=daily"],
        "snapshot": "",
        "ca": "",
    }
