"""``pulumi up`` by hand: registers what the registry says the cell of the selected stack should be."""

from hermesops import app

app.fleet_program()()
