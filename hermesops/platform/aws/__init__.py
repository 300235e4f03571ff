"""The platform on AWS: its Pulumi program and the bundle that its hosts are installed from."""
