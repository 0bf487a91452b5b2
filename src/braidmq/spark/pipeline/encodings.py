"""Payloads that aren't JSON or MessagePack, as plain Python values: CBOR, Avro and Protobuf.

Avro and Protobuf say nothing without their schema, which is a file that the configuration names: an Avro
schema (`.avsc`), or a descriptor set as `protoc --include_imports --descriptor_set_out` writes it.
"""

import io
import json
from collections.abc import Callable, Iterable
from typing import Any, Final

import cbor2
import msgspec

from braidmq.errors import ConfigError

Load = Callable[[bytes], Any]
SINGLE_OBJECT: Final = b"\xc3\x01"  # Avro's header of a single object, before eight bytes of fingerprint
SINGLE_OBJECT_BYTES: Final = 10


class Definition(msgspec.Struct, frozen=True):
    """What a schema file says; `message` is the name of the Protobuf message."""

    content: bytes
    message: str | None = None


def loader(format: str, definition: Definition | None) -> Load:
    """Reads payloads of a format; ConfigError if the schema file can't be used."""
    if format == "cbor":
        return cbor2.loads
    if definition is None:
        raise ConfigError(f"format {format} needs a schema_file")
    return _avro(definition) if format == "avro" else _protobuf(definition)


def _avro(definition: Definition) -> Load:
    import fastavro

    try:
        schema = fastavro.parse_schema(json.loads(definition.content))
    except (ValueError, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise ConfigError(f"the Avro schema can't be read: {error}") from error

    def load(payload: bytes) -> Any:
        body = payload[SINGLE_OBJECT_BYTES:] if payload.startswith(SINGLE_OBJECT) else payload
        stream = io.BytesIO(body)
        value = fastavro.schemaless_reader(stream, schema, None)
        if stream.read(1):
            raise ValueError("there are bytes behind the value")
        return value

    return load


def _protobuf(definition: Definition) -> Load:
    from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(definition.content)
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        found = pool.FindMessageTypeByName(definition.message or "")
    except (message.DecodeError, KeyError, TypeError) as error:
        raise ConfigError(f"the descriptor set has no message {definition.message!r}: {error}") from error
    kind = message_factory.GetMessageClass(found)
    return lambda payload: plain_message(kind.FromString(payload))


def plain_message(value: Any) -> dict[str, Any]:
    """A Protobuf message by the names of its fields; what has presence and isn't there is left out."""
    plain: dict[str, Any] = {}
    for field in value.DESCRIPTOR.fields:
        if field.has_presence and not value.HasField(field.name):
            continue
        plain[field.name] = _plain_field(field, getattr(value, field.name))
    return plain


def _plain_field(field: Any, value: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entry = field.message_type.fields_by_name["value"]
        return {str(key): _plain_one(entry, value[key]) for key in value}
    if field.is_repeated:
        return _plain_list(field, value)
    return _plain_one(field, value)


def _plain_list(field: Any, values: Iterable[Any]) -> list[Any]:
    return [_plain_one(field, value) for value in values]


def _plain_one(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return plain_message(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    return value
