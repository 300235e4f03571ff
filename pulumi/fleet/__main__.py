"""``pulumi up`` by hand: registers what the registry says this cell should be."""

import pulumi

from hermesops import app

app.fleet_program(pulumi.get_stack())()
