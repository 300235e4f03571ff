"""``hermesops platform``: the shared platform of an environment."""

from hermesops.cli.commands.platform import bootstrap, bundle, connection, database, services
from hermesops.cli.groups.noun import Noun

app = Noun(no_args_is_help=True)
app.command(waits=True)(bootstrap.bootstrap)
app.command()(services.show)
app.command()(services.logs)
app.command("open")(services.open_)
app.command(waits=True)(services.restart)
app.command(waits=True)(connection.connect)
app.command(waits=True)(database.restore)
app.command()(bundle.bundle)
