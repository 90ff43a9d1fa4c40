"""What all sections share: the model base and field types that accept exactly what is documented."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Strict,
    Tag,
    ValidationError,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from tidegate.config.durations import DurationUnit, parse_duration


class Section(BaseModel):
    """An object in the configuration file: camelCase there, snake_case here, frozen, no unknown keys.

    Validators are built when a section is first used, so a start does not pay for absent sections.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        defer_build=True,
        alias_generator=to_camel,
        protected_namespaces=(),
    )


S = TypeVar("S", bound=Section)
T = TypeVar("T")

NESTED_ERROR = "nested"
"""Type of the error that carries a lazily built section's own errors in its context, under `errors`."""


class _BuildWhenPresent:
    """Keeps a nested section's validator from being built until the file has that section."""

    def __get_pydantic_core_schema__(self, source: type[Section], handler: GetCoreSchemaHandler) -> CoreSchema:
        def validate(value: object) -> Section:
            try:
                return source.model_validate(value)
            except ValidationError as error:
                errors = error.errors(include_url=False)
                raise PydanticCustomError(NESTED_ERROR, "nested", {"errors": errors}) from None

        def describe(_: CoreSchema, describe_schema: GetJsonSchemaHandler) -> JsonSchemaValue:
            source.model_rebuild()
            return describe_schema(source.__pydantic_core_schema__)

        metadata = {"pydantic_js_functions": [describe]}
        return core_schema.no_info_plain_validator_function(validate, metadata=metadata)


Lazy = Annotated[T, _BuildWhenPresent()]
"""A nested section whose validator is built when the file has it; absent ones cost a start nothing."""


def absent(model: type[S]) -> Any:
    """The default of a field whose section is not in the file: all its defaults, without validation."""
    return Field(default_factory=model.model_construct)


Flag = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=0)]
Positive = Annotated[int, Strict(), Field(gt=0)]
Port = Annotated[int, Strict(), Field(ge=1, le=65535)]
Amount = Annotated[float, Strict(), Field(ge=0)]
PositiveAmount = Annotated[float, Strict(), Field(gt=0)]
Names = tuple[str, ...]

DmScope = Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]
GroupScope = Literal["main", "per-group"]
GroupPolicy = Literal["open", "disabled", "allowlist"]
DmPolicy = Literal["pairing", "allowlist", "open", "disabled"]
ContextVisibility = Literal["all", "allowlist", "allowlist_quote"]
QueueMode = Literal["collect", "steer", "followup", "interrupt", "steer-backlog"]
Thinking = Literal["off", "minimal", "low", "medium", "high", "xhigh", "adaptive", "max", "ultra"]
AckScope = Literal["group-mentions", "group-all", "direct", "all", "off", "none"]
VisibleReplies = Literal["automatic", "message_tool"]
BreakPreference = Literal["paragraph", "newline", "sentence"]


def _identifier(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


Identifier = Annotated[
    str,
    BeforeValidator(_identifier),
    WithJsonSchema({"type": ["string", "integer"]}),
]
"""A platform's id; a number in the file becomes text."""

Identifiers = tuple[Identifier, ...]


_NOT_IN_ID = re.compile(r"[^a-z0-9_-]+")
_MAX_ID_CHARS = 64


def normalize_id(text: str, fallback: str) -> str:
    """An agent's or account's id as sessions and bindings know it; `fallback` when nothing is left."""
    slug = _NOT_IN_ID.sub("-", text.strip().lower()).strip("-")
    return slug[:_MAX_ID_CHARS] or fallback


def duration(unit: DurationUnit) -> Callable[[object], object]:
    """A validator for durations; a bare number counts in `unit`."""

    def read(value: object) -> object:
        if isinstance(value, timedelta):
            return value
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError("a duration is expected, such as 500ms, 30s, 5m, 2h or 1h30m")
        return parse_duration(value, unit)

    return read


_DURATION_SCHEMA = WithJsonSchema({"type": ["string", "number"], "examples": ["30s", "5m", "1h30m"]})
Seconds = Annotated[timedelta, BeforeValidator(duration("s")), _DURATION_SCHEMA]
Days = Annotated[timedelta, BeforeValidator(duration("d")), _DURATION_SCHEMA]

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(b|kb|mb|gb|tb)?", re.ASCII)
_SIZE_UNITS = {None: 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}


def _byte_size(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a size is expected, such as 500mb or 10gb")
    match = _SIZE.fullmatch(str(value).strip().lower()[:32])
    if match is None:
        raise ValueError("a size is expected, such as 500mb or 10gb")
    return int(float(match[1]) * _SIZE_UNITS[match[2]])


ByteSize = Annotated[
    int, BeforeValidator(_byte_size), WithJsonSchema({"type": ["string", "number"], "examples": ["500mb"]})
]
"""Bytes; text such as `500mb` counts in powers of 1024."""


def _off(value: object) -> object:
    return None if value is False else value


OffAsNone = BeforeValidator(_off)
"""`false` in the file means that the thing is off, None inside."""

_ENV_ID = r"^[A-Z][A-Z0-9_]{0,127}$"
_ALIAS = r"^[a-z][a-z0-9_-]{0,63}$"


class SecretRef(Section):
    """A secret that lives somewhere else and is fetched when it is needed."""

    source: Literal["env", "file", "exec", "store"]
    """Kind of place: an environment variable, a file, or a command's output."""
    provider: Annotated[str, Field(pattern=_ALIAS)] = "default"
    """Name under `secrets.providers`; `default` follows `secrets.defaults`."""
    id: Annotated[str, Field(min_length=1, max_length=256)]
    """Variable name, JSON pointer (`/a/b`) or `value` for a file, or the command's own id."""


def _secret_kind(value: object) -> str:
    return "<ref>" if isinstance(value, dict | SecretRef) else "<text>"


Secret = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[SecretRef, Tag("<ref>")],
    Discriminator(_secret_kind),
]
"""A secret: the text itself (usually `${NAME}`) or a reference to where it lives."""


def _model_choice(value: object) -> object:
    return {"primary": value} if isinstance(value, str) else value


class ModelChoice(Section):
    """Which model answers, and which stand in for it; a bare text names the first."""

    primary: str | None = None
    """`<provider>/<model>`; unset: the next wider setting counts."""
    fallbacks: Names = ()
    """Tried in order when the primary fails; empty: none."""


ModelOrName = Annotated[Lazy[ModelChoice], BeforeValidator(_model_choice)]


class ToolNames(Section):
    """Which tools may be used; `deny` wins over both others."""

    allow: Names | None = None
    """Only these; unset: what the profile allows."""
    also_allow: Names = ()
    """These on top of the profile."""
    deny: Names = ()
    """Never these."""
