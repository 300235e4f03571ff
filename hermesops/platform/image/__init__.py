"""Contents of image ``hermes-platform``, and the bundles that hosts are installed from."""
