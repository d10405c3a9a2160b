"""Reads the answers of a webhook and what the pod would have, where `load` only counts."""

from __future__ import annotations

import http.client
import json
import ssl
from base64 import b64decode
from collections.abc import Sequence
from contextlib import closing
from typing import TypeAlias

from trellis.base.quantities import Quantity

# What an answer sets: the path in the pod, down to the resource, and how much.
Set: TypeAlias = dict[str, Quantity]


def read_responses(port: int, bodies: Sequence[bytes]) -> list[Set]:
    """What is set of resources in each answer; nothing if the pod stays as it is."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with closing(http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10.0)) as connection:
        return [_read_response(connection, body) for body in bodies]


def _read_response(connection: http.client.HTTPSConnection, body: bytes) -> Set:
    connection.request("POST", "/", body, {"Content-Type": "application/json"})
    response = json.loads(connection.getresponse().read())
    patch = json.loads(b64decode(response["response"].get("patch") or b"W10="))
    resources = (op for op in patch if "/resources/" in op["path"] and isinstance(op["value"], str))
    return {op["path"]: Quantity.parse(op["value"]) for op in resources}
