"""JSON Schema of settings.toml, for editors and documentation."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from hermesops.settings.fields import Settings


def schema() -> dict[str, Any]:
    """The JSON Schema of settings.toml: every key with its description, default and bounds."""
    generated = Settings.model_json_schema(schema_generator=_TomlSchema)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        **generated,
        "title": "settings.toml",
        "description": "Settings of one environment of hermesops. "
        "A variable HERMESOPS_<KEY>, or HERMESOPS_<TABLE>_<KEY>, wins over the file.",
    }


class _TomlSchema(GenerateJsonSchema):
    """JSON Schema without null, which TOML does not have, and without titles that repeat keys."""

    def nullable_schema(self, schema: Any) -> dict[str, Any]:  # noqa: ANN401 - a type of pydantic's core
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
        generated = super().default_schema(schema)
        says_nothing = (
            generated.get("default", "") is None or schema["schema"]["type"] == "model"
        )  # its keys have defaults
        return {key: value for key, value in generated.items() if key != "default"} if says_nothing else generated

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002 - as above
        return False
