"""``hermesops settings``: every setting, its value and where it came from."""

from hermesops.cli import context
from hermesops.cli.console import say, table
from hermesops.cli.noun import Noun

app = Noun(no_args_is_help=True)


@app.command()
def show() -> None:
    """Show each setting with its source; secrets are masked."""
    from pydantic import SecretStr

    env = context.environment()
    rows: list[dict[str, object]] = []
    for key, field in type(env.settings).model_fields.items():
        value = getattr(env.settings, key)
        shown: object = "(set, hidden)" if isinstance(value, SecretStr) else value
        if isinstance(shown, dict):
            shown = ",".join(f"{name}={text}" for name, text in shown.items())
        rows.append(
            {
                "key": key,
                "value": str(shown) if shown is not None else None,
                "source": env.sources[key],
                "description": field.description,
            }
        )
    say(f"environment {env.name}, folder {env.folder}")
    table("settings", "settings", ("key", "value", "source", "description"), rows, "")
