"""The JSON Schema of settings.toml."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from hermesops.settings.fields import Settings


def schema() -> dict[str, Any]:
    """The JSON Schema of settings.toml: every key with its description, default and bounds."""
    found = Settings.model_json_schema(schema_generator=_TomlSchema)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        **found,
        "title": "settings.toml",
        "description": "Settings of one environment of hermesops. "
        "A variable HERMESOPS_<KEY>, or HERMESOPS_<TABLE>_<KEY>, wins over the file.",
    }


class _TomlSchema(GenerateJsonSchema):
    """JSON Schema without null, which TOML does not have, and without titles that repeat keys."""

    def nullable_schema(self, schema: Any) -> dict[str, Any]:  # noqa: ANN401 - a type of pydantic's core
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
        found = super().default_schema(schema)
        says_nothing = found.get("default", "") is None or schema["schema"]["type"] == "model"  # its keys have defaults
        return {key: value for key, value in found.items() if key != "default"} if says_nothing else found

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002 - as above
        return False
