"""JSON in and out: reading what the command line was given, and writing values that JSON has no word for."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import json
import math
import pathlib
import sys
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from raygraph.cli.problems import Problem

#: For `--help`; `encode` is the rule.
ENCODING_HELP: Final = """\
Values that JSON has no word for are written like this: tuples and other sequences as lists; sets as sorted
lists; dataclasses, pydantic models and other mappings as objects; dates and times in ISO format; enums as
their value; numpy arrays as lists; bytes as base64; NaN and infinities, decimals, UUIDs and paths as strings;
dict keys that are not strings as strings; any other object as its repr().
"""


def read_json(source: str, option: str) -> Any:
    """The JSON that an option gives: literally, in a file (`@path`), or on standard input (`-`).

    Raises:
        Problem: The file cannot be read or the text is not JSON.
    """
    text, where = _read(source, option)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise Problem(
            f"{option}: {where} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise Problem(f"{option}: {where} is nested too deeply") from None


def _read(source: str, option: str) -> tuple[str, str]:
    try:
        if source == "-":
            return sys.stdin.read(), "standard input"
        if source.startswith("@"):
            return pathlib.Path(source[1:]).read_text(encoding="utf-8-sig"), source[1:]
    except OSError as error:
        raise Problem(f"{option}: cannot read {source[1:]!r}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Problem(f"{option}: {source[1:] or 'standard input'} is not UTF-8: {error.reason}") from None
    return source, "the value"


def to_json(value: Any, indent: int | None = None) -> str:
    """Any value as JSON text; see `ENCODING_HELP`."""
    return json.dumps(encode(value), indent=indent, ensure_ascii=False, allow_nan=False)


def encode(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """A copy of a value made of dicts, lists, strings, numbers, booleans and None only.

    Args:
        value: Anything.
        inside: The ids of the containers around it, to notice one that contains itself.
    """
    if value is None or value is True or value is False:
        return value
    if isinstance(value, enum.Enum):
        return encode(value.value, inside)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _NOT_FINITE[str(float(value))]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID, pathlib.PurePath)):
        return str(value)
    if isinstance(value, type):
        return repr(value)
    if id(value) in inside:
        return f"<{type(value).__name__} that contains itself>"
    return _encode_container(value, (*inside, id(value)))


_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _encode_container(value: Any, inside: tuple[int, ...]) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: encode(getattr(value, field.name, None), inside) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return _encode_mapping(value, inside)
    if isinstance(value, (set, frozenset)):
        return _sorted([encode(item, inside) for item in value])
    if isinstance(value, (Sequence, deque)):
        return [encode(item, inside) for item in value]
    for method in ("model_dump", "tolist"):  # pydantic; numpy arrays and scalars
        if callable(plain := getattr(value, method, None)):
            return encode(plain(), inside)
    return _repr(value)


def _encode_mapping(value: Mapping[Any, Any], inside: tuple[int, ...]) -> Any:
    encoded = {_key(key): encode(item, inside) for key, item in value.items()}
    if len(encoded) < len(value):  # two keys that look the same, such as 1 and "1": keep both
        return [[encode(key, inside), encode(item, inside)] for key, item in value.items()]
    return encoded


def _key(key: Any) -> str:
    encoded = encode(key)
    return encoded if isinstance(encoded, str) else json.dumps(encoded, ensure_ascii=False)


def _sorted(items: list[Any]) -> list[Any]:
    """Strings or numbers in their own order, anything else in the order of its JSON text."""
    for kind in (str, (int, float)):
        if all(isinstance(item, kind) for item in items):
            return sorted(items)
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:
        return object.__repr__(value)
