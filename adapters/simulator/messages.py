"""JSON-RPC messages as a simulated server writes them."""

from __future__ import annotations

from typing import TypeAlias

from adapters.contract import Json

Message: TypeAlias = dict[str, Json]

KEY_META = "dev.longcall/submission-key"


def result(request_id: Json, value: Message) -> Message:
    """The answer to a request that was carried out."""
    return {"jsonrpc": "2.0", "id": request_id, "result": value}


def error(request_id: Json, code: int, words: str, data: Json = None) -> Message:
    """The answer to a request that was not."""
    told: Message = {"code": code, "message": words}
    if data is not None:
        told["data"] = data
    return {"jsonrpc": "2.0", "id": request_id, "error": told}


def as_object(value: Json) -> Message:
    """The value, or an empty object in place of anything else."""
    return value if isinstance(value, dict) else {}


def submission_key_of(params: Message) -> str | None:
    """The key that came with a call, for the truth only: no simulated server honours it."""
    key = as_object(params.get("_meta")).get(KEY_META)
    return key if isinstance(key, str) else None
