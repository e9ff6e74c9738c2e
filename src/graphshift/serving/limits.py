"""What a request may cost, and who may ask."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

#: What needs no token: whether it is there, and how it is used.
OPEN = ("/", "/health", "/openapi.json")


@dataclass(frozen=True)
class Limits:
    """Of one request, and of those that wait.

    Attributes:
        bytes: of its body.
        nodes, edges: of its graph; with changes, of the whole graph.
        seconds: until it is answered; also for its body to arrive.
        waiting: requests that may be under way, or wait for their turn; more are sent away.
    """

    bytes: int = 16_000_000
    nodes: int = 100_000
    edges: int = 1_000_000
    seconds: float = 30.0
    waiting: int = 32


class Guard:
    """Stands before the application: the host's name, the token, the size of the body and the time it takes to come.

    Args:
        app: what it guards.
        limits: see there.
        token: that requests must carry, as ``Authorization: Bearer TOKEN``; None for none.
        hosts: names that the service is asked by; None for any. A page in a browser that has its name point to this
            machine asks by its own.
    """

    def __init__(self, app: Any, limits: Limits, token: str | None, hosts: Sequence[str] | None) -> None:
        self.app, self.limits, self.token, self.hosts = app, limits, token, hosts

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        if self.hosts is not None and _host(headers.get(b"host", b"")) not in self.hosts:
            return await _refuse(send, 400, "the host in the request is not that of this service.")
        if self.token is not None and scope["path"] not in OPEN:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, b"Bearer " + self.token.encode()):
                return await _refuse(send, 401, "a token is needed: Authorization: Bearer TOKEN.")
        if scope["method"] in ("GET", "HEAD"):
            return await self.app(scope, receive, send)
        body = await self._body(headers.get(b"content-length", b""), receive, send)
        if body is None:
            return None
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def again() -> Message:
            return next(messages, None) or await receive()

        return await self.app(scope, again, send)

    async def _body(self, length: bytes, receive: Receive, send: Send) -> bytes | None:
        """All of it; None if it was refused or the client has gone."""
        too_large = f"the body is larger than {self.limits.bytes:,} bytes."
        if length and (not length.isdigit() or int(length[:20]) > self.limits.bytes):
            await _refuse(send, 413, too_large)
            return None
        parts, size, end = [], 0, time.monotonic() + self.limits.seconds
        while True:
            try:
                message = await asyncio.wait_for(receive(), max(end - time.monotonic(), 0.001))
            except TimeoutError:
                await _refuse(send, 408, f"the body did not arrive within {self.limits.seconds:g} s.")
                return None
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self.limits.bytes:
                await _refuse(send, 413, too_large)
                return None
            if not message.get("more_body", False):
                return b"".join(parts)


def _host(value: bytes) -> str:
    """Without its port."""
    text = value.decode("latin-1")
    return text.partition("]")[0] + "]" if text.startswith("[") else text.partition(":")[0]


async def _refuse(send: Send, status: int, why: str) -> None:
    content = json.dumps({"detail": why}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
