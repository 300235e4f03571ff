"""What an empty AWS account needs before a pipeline can run Pulumi in it: state bucket, key, and pipelines' roles."""
