"""Reads the bytes of an OpenAPI document, JSON or YAML, into plain values.

Runs in a process that can be killed. YAML is read by the rules of JSON's types: `no` is a word and
2026-01-01 a text, as the authors of the API meant them.
"""

import json
import re
from typing import Any

from tools.openapi.swagger import convert_swagger

SUPPORTED_VERSION = re.compile(r"3\.[012](\.\d+)?([-+].*)?")


class DocumentUnreadable(Exception):
    """The document cannot be read; the text says why, and what to do."""


def load_document(body: bytes) -> dict[str, Any]:
    """The document as a mapping with names for keys. Raises DocumentUnreadable."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DocumentUnreadable("it is not text in UTF-8; save it as UTF-8") from None
    if "\0" in text:
        raise DocumentUnreadable("it is not text; give the address of a document in JSON or YAML")
    try:
        if text.lstrip()[:1] in ("{", "["):
            document = json.loads(text)
        else:
            document = _load_yaml(text)
    except RecursionError:
        raise DocumentUnreadable("it is nested too deep; make it flatter") from None
    except ValueError as error:
        raise DocumentUnreadable(f"it is not correct JSON ({_shorten(error)})") from None
    if not isinstance(document, dict):
        raise DocumentUnreadable(
            "it is no OpenAPI document but something else; give the address of the JSON or YAML itself"
        )
    if "swagger" in document:
        document = _convert_swagger(document)
    return _check_version(document)


def _convert_swagger(document: dict[str, Any]) -> dict[str, Any]:
    version = document["swagger"]
    if str(version) not in ("2.0", "2"):
        raise DocumentUnreadable(f"it is Swagger {str(version)[:20]}; Swagger 2.0 and OpenAPI 3 are read")
    return convert_swagger(document)


def _check_version(document: dict[str, Any]) -> dict[str, Any]:
    version = document.get("openapi")
    if version is None:
        raise DocumentUnreadable(
            "it has no `openapi` with a version; give the address of the JSON or YAML itself"
        )
    if not isinstance(version, str | float) or not SUPPORTED_VERSION.fullmatch(str(version)):
        raise DocumentUnreadable(
            f"it is of version {str(version)[:20]}; OpenAPI 3.0 to 3.2 and Swagger 2.0 are read"
        )
    if not isinstance(document.get("paths"), dict) or not document["paths"]:
        raise DocumentUnreadable("it has no `paths`, so there is nothing to pick from")
    return document


def _load_yaml(text: str) -> Any:
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Safe, and with the types of JSON only."""

    Loader.yaml_implicit_resolvers = {}
    for tag, pattern, first in (
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("int", r"[-+]?[0-9]+|0x[0-9a-fA-F]+", "-+0123456789"),
        ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
        ("merge", r"<<", "<"),
    ):
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"^(?:{pattern})$"), list(first))
    try:
        return yaml.load(text, Loader)  # noqa: S506 - a subclass of the safe loader
    except yaml.YAMLError as error:
        raise DocumentUnreadable(f"it is not correct YAML ({_shorten(error)})") from None


def _shorten(error: Exception) -> str:
    return " ".join(str(error).split())[:120]
