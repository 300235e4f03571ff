"""``pulumi up`` by hand: registers what the registry says the cell of the selected stack should be."""

from hermesops.app.fleet_program import fleet_program

fleet_program()()
