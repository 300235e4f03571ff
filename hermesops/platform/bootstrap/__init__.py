"""Bootstrap of an empty AWS account for pipelines that run Pulumi: state bucket, key and pipeline roles."""
