"""OpenAPI documents as services write them, and hostile ones."""

import copy
import json
from collections.abc import Sequence
from typing import Any

from tools.http.routes import HttpRoute
from tools.openapi.documents import OpenApiDocument, build_usable_routes
from tools.schemas.signature import ToolDefinitionError

SHIPYARD_YAML = """
openapi: 3.0.3
info: {title: Shipyard, version: "1"}
servers: [{url: "/v1"}]
security: [{key: []}]
paths:
  /ships/{shipId}:
    parameters:
      - {name: shipId, in: path, required: true, description: Which., schema: {type: integer, minimum: 0, exclusiveMinimum: true}}
    get:
      operationId: showShip
      summary: Show a ship
      description: Show a ship with its crew.
      parameters:
        - $ref: '#/components/parameters/Fields'
        - {name: filter, in: query, style: deepObject, schema: {type: object, properties: {flag: {type: string, nullable: true}}}}
        - {name: X-Trace, in: header, schema: {type: string}}
        - {name: Accept, in: header, schema: {type: string}}
        - {name: api_key, in: query, schema: {type: string}}
        - {name: near, in: query, content: {application/json: {schema: {type: array, items: {type: number}}}}}
        - {name: spy, in: cookie, schema: {type: string}}
      responses: {"200": {description: ok}}
    put:
      operationId: paint-ship
      requestBody: {required: true, content: {application/json: {schema: {$ref: '#/components/schemas/Ship'}}}}
      responses: {"200": {description: ok, content: {application/json: {example: {since: 2020-01-01}}}}}
    delete:
      description: Sink it.
      responses: {}
  /ships:
    post:
      operationId: addShip
      summary: Add a ship.
      requestBody: {content: {application/x-www-form-urlencoded: {schema: {$ref: '#/components/schemas/Ship'}}}}
    head:
      operationId: countShips
  /logs:
    post: {operationId: writeLog, requestBody: {required: true, content: {text/plain: {schema: {type: string}}}}}
    put: {operationId: sendPhoto, requestBody: {required: true, content: {multipart/form-data: {schema: {type: object}}}}}
    patch: {operationId: mixLog, requestBody: {content: {"application/merge-patch+json": {schema: {anyOf: [{type: string}, {type: array, items: {type: string}}]}}}}}
  /elsewhere:
    servers: [{url: "https://{where}.test/api", variables: {where: {default: other}}}]
    get: {operationId: lookElsewhere}
  /broken:
    get: {operationId: askBroken, parameters: [{name: x, in: nowhere}]}
components:
  parameters:
    Fields: {name: fields, in: query, style: form, explode: false, schema: {type: array, items: {type: string, enum: [no, yes, name]}}}
  schemas:
    Ship:
      type: object
      required: [name, id]
      properties:
        id: {type: integer, readOnly: true}
        name: {type: string, maxLength: 20}
        shipId: {type: string, description: The old one.}
        launched: {type: string, format: date, example: 2020-01-01}
        tender: {$ref: '#/components/schemas/Ship'}
  securitySchemes:
    key: {type: apiKey, in: query, name: api_key}
    token: {type: http, scheme: bearer}
    person: {type: http, scheme: Basic}
    far: {type: oauth2, flows: {}}
    crumb: {type: apiKey, in: cookie, name: c}
"""  # noqa: E501

SMALL_DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Small", "version": "1"},
    "paths": {
        "/x/{id}": {
            "post": {
                "operationId": "doIt",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
                "requestBody": {
                    "content": {"application/json": {"schema": {"type": "object", "properties": {"a": {}}}}}
                },
            }
        }
    },
}


def changed_small_document(*path: str | int, value: object) -> bytes:
    """The small document with the value at `path` changed (`...`: removed)."""
    document = copy.deepcopy(SMALL_DOCUMENT)
    owner: Any = document
    for step in path[:-1]:
        owner = owner[step]
    if value is ...:
        del owner[path[-1]]
    else:
        owner[path[-1]] = value
    return json.dumps(document).encode()


OPERATION_PATH = ("paths", "/x/{id}", "post")
PARAMETER_PATH = (*OPERATION_PATH, "parameters", 0)
SCHEMA_PATH = (*OPERATION_PATH, "requestBody", "content", "application/json", "schema")


def deeply_nested_json(levels: int) -> bytes:
    return b'{"openapi":"3.1.0","paths":' + b'{"/":' * levels + b"1" + b"}" * levels + b"}"


def billion_laughs_yaml(levels: int) -> str:
    """YAML of a few lines that would expand to 10**levels schemas."""
    lines = ["a0: &a0 {type: string}"]
    lines += [f"a{n}: &a{n} {{allOf: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, levels)]
    last = f"*a{levels - 1}"
    return "\n".join(
        [
            *lines,
            "openapi: 3.0.0",
            "info: {title: L, version: '1'}",
            "paths:",
            "  /x:",
            "    post: {operationId: doIt, requestBody: {content: {application/json: {schema: "
            + last
            + "}}}}",
        ]
    )


MERGE_BOMB_YAML = "\n".join(
    [
        "m0: &m0 {x0: 1}",
        *(f"m{n}: &m{n}\n  <<: [{', '.join([f'*m{n - 1}'] * 9)}]\n  x{n}: 1" for n in range(1, 9)),
        "openapi: 3.0.0",
    ]
)


async def build_routes(document: OpenApiDocument, picked: Sequence[str], prefix: str = "") -> list[HttpRoute]:
    """The routes to the operations picked. Raises ToolDefinitionError if one of them cannot be used."""
    selection = await build_usable_routes(document, picked, prefix)
    for reason in selection.rejections.values():
        raise ToolDefinitionError(reason)
    return list(selection.routes)
