"""The shared platform of one environment, as Pulumi programs: on AWS, or on one machine of the local world."""
