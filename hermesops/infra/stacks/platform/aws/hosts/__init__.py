"""The platform's hosts on AWS: their autoscaling group, and the script with which one makes itself a host."""
