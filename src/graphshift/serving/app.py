"""The HTTP service: FastAPI around :class:`~graphshift.serving.service.Service`."""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pydantic import BaseModel, ValidationError

from graphshift._version import __version__
from graphshift.core.errors import GraphshiftError
from graphshift.serving.bodies import Body, Changes
from graphshift.serving.limits import Guard
from graphshift.serving.page import page
from graphshift.serving.service import Refused, Service

_log = logging.getLogger("graphshift.serving")


def create_app(
    service: Service, *, token: str | None = None, hosts: Sequence[str] | None = ("127.0.0.1", "localhost", "[::1]")
) -> Guard:
    """The service as an ASGI application.

    Args:
        service: what answers.
        token: that requests must carry; None for none.
        hosts: names that it may be asked by; None for any.
    """
    from fastapi import FastAPI, Request, Response
    from fastapi.responses import HTMLResponse, JSONResponse

    limits = service.limits
    title = f"graphshift: {service.about().get('method', 'ensemble')}, {service.model.task_.kind}"
    app = FastAPI(title=title, version=__version__, description=_DESCRIPTION, docs_url=None, redoc_url=None)
    turns = ThreadPoolExecutor(1, thread_name_prefix="graphshift")  # one prediction at a time uses all cores
    waiting = threading.Semaphore(limits.waiting)

    async def in_turn(work: Callable[[bytes], bytes], request: Request) -> Response:
        content = await request.body()
        if not waiting.acquire(blocking=False):
            raise Refused(503, f"{limits.waiting} requests are waiting; try again.")
        future = turns.submit(work, content)
        future.add_done_callback(lambda _: waiting.release())
        try:
            answer = await asyncio.wait_for(asyncio.wrap_future(future), limits.seconds)
        except TimeoutError:
            raise Refused(504, f"there was no answer within {limits.seconds:g} s; send a smaller graph.") from None
        return Response(answer, media_type="application/json")

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def start() -> str:
        return page(app.openapi(), service.example())

    @app.get("/health")
    def health() -> dict[str, str]:
        """Whether the service is there."""
        return {"status": "ok", "version": __version__}

    @app.get("/model")
    def model() -> dict[str, Any]:
        """The model's task, classes, features and settings, the graph that changes are applied to, and the limits."""
        return service.about()

    @app.post("/predict", openapi_extra=_takes(Body), responses=_ANSWERS)
    async def predict(request: Request) -> Response:
        """Predictions of every node of a graph that is sent whole."""
        return await in_turn(service.predict, request)

    @app.post("/predict/changed", openapi_extra=_takes(Changes), responses=_ANSWERS)
    async def predict_changed(request: Request) -> Response:
        """Predictions of nodes that changed, or are new, in the graph that the service was started with."""
        return await in_turn(service.predict_changed, request)

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Exception) -> Response:
        return JSONResponse({"detail": str(error)}, error.status if isinstance(error, Refused) else 500)

    @app.exception_handler(GraphshiftError)
    async def mistaken(_: Request, error: Exception) -> Response:
        return JSONResponse({"detail": str(error)[:2000]}, 422)

    @app.exception_handler(ValidationError)
    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, ValidationError)
        return JSONResponse({"detail": _first_problem(error)}, 422)

    @app.exception_handler(MemoryError)
    async def too_much(_: Request, error: Exception) -> Response:
        return JSONResponse({"detail": "this does not fit into memory; send a smaller graph."}, 503)

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> Response:
        _log.error("a request failed: %s", type(error).__name__, exc_info=error)
        return JSONResponse({"detail": "the service failed; its log says more."}, 500)

    return Guard(app, limits, token, hosts)


_DESCRIPTION = (
    "POST a graph, or the nodes of a graph that changed, and get predictions. A mistake in a request is answered with "
    "status 422 and one sentence. Graphs that are sent are not kept; how right the model is on the last eight is."
)
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "predictions, one for each node, and notes on what was left out or filled in"},
    401: {"description": "a token is needed"},
    413: {"description": "too large"},
    422: {"description": "a mistake in the request: one sentence in `detail`"},
    503: {"description": "too many are waiting"},
    504: {"description": "it took too long"},
}


def _takes(body: type[BaseModel]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": body.model_json_schema()}}}}


def _first_problem(error: ValidationError) -> str:
    """One sentence. A value that fits none of several types has a problem for each: the furthest one counts."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    first, place = problems[0], problems[0]["loc"]
    alike = [one for one in problems if one["loc"][: len(place) - 1] == place[:-1] and one["msg"].startswith(_WANTED)]
    if not (first["msg"].startswith(_WANTED) and len({one["loc"][len(place) - 1] for one in alike}) > 1):
        return f"{_place(place)}: {first['msg'][:300]}"
    if any(one["type"] == "finite_number" and one["loc"][: len(place) - 1] == place[:-1] for one in problems):
        return f"{_place(place[:-1])}: NaN or infinite; expected a finite number"
    deepest = max(alike, key=lambda one: len(one["loc"]))
    if len(deepest["loc"]) > len(place):  # without the name of the type
        return f"{_place(place[:-1] + deepest['loc'][len(place) :])}: {deepest['msg'][:300]}"
    kinds = list(dict.fromkeys(one["msg"].removeprefix(_WANTED).partition(",")[0] for one in alike))
    return f"{_place(place[:-1])}: expected a {', '.join(kinds[:-1])} or {kinds[-1]}"


_WANTED = "Input should be a valid "


def _place(parts: Sequence[int | str]) -> str:
    """As ``nodes[0].x``."""
    found = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:50]}" for part in parts[:5])
    return found.removeprefix(".") or "the body"
