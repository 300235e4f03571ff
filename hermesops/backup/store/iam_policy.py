"""What an instance's own credential may do, as an IAM policy. Pure.

It reads its repository and adds to it, and takes away nothing but restic's locks. S3 knows no right to add that is not
one to overwrite: the bucket keeps versions, so that an overwritten object is still there.
Source: restic's S3 backend (``internal/backend/s3``, 0.14: GET, HEAD, PUT, DELETE, LIST below its prefix); AWS service
authorization reference, Amazon S3.
"""

from typing import Any

from hermesops.backup.repository import Repository


def policy_of(repository: Repository) -> dict[str, Any]:
    """The policy of the one user that a repository belongs to."""
    bucket = f"arn:aws:s3:::{repository.bucket.name}"
    everything = f"{bucket}/{repository.prefix}"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "ReadAndAdd",
                "Effect": "Allow",
                "Action": ["s3:GetObject", "s3:PutObject"],
                "Resource": [f"{everything}/*"],
            },
            {
                "Sid": "Unlock",
                "Effect": "Allow",
                "Action": ["s3:DeleteObject"],
                "Resource": [f"{everything}/locks/*"],
            },
            {
                "Sid": "ListItsOwn",
                "Effect": "Allow",
                "Action": ["s3:ListBucket"],
                "Resource": [bucket],
                "Condition": {"StringLike": {"s3:prefix": [f"{repository.prefix}/*"]}},
            },
            {
                "Sid": "FindTheRegion",
                "Effect": "Allow",
                "Action": ["s3:GetBucketLocation"],
                "Resource": [bucket],
            },
        ],
    }
