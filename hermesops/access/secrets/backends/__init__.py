"""Where secrets can be kept: files in a folder, an age-encrypted file, AWS Secrets Manager."""
