"""``graphshift serve``."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from graphshift.cli.options import DataDir, load_dataset, pairs
from graphshift.cli.use import Edges, Model, MoveCopies, TableOptions, as_tables, calibrator
from graphshift.core.errors import GraphshiftError

if TYPE_CHECKING:
    from graphshift.estimators import Predictor

_GRAPH = "the graph that changed nodes are in: a table of nodes, or a dataset with --environment"
_TOKEN = "a file with the token that requests must carry"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(
    model: Model,
    graph: Annotated[str | None, Argument(metavar="[NODES|DATASET]", help=_GRAPH)] = None,
    edges: Edges = None,
    *,
    environment: Annotated[str | None, Option(metavar="NAME", help="of the DATASET", show_default=False)] = None,
    host: Annotated[str, Option(metavar="HOST", help="the address to listen on; 0.0.0.0 is every one")] = "127.0.0.1",
    port: Annotated[int, Option(metavar="N", help="0 takes a free one", min=0, max=65535)] = 8000,
    token_file: Annotated[
        Path | None, Option(metavar="FILE", help=_TOKEN, show_default="GRAPHSHIFT_TOKEN, or none")
    ] = None,
    max_bytes: Annotated[int, Option(metavar="N", help="of a request's body", min=1)] = 16_000_000,
    max_nodes: Annotated[int, Option(metavar="N", help="of a request's graph", min=1)] = 100_000,
    max_edges: Annotated[int, Option(metavar="N", help="of a request's graph", min=1)] = 1_000_000,
    timeout: Annotated[float, Option(metavar="S", help="seconds until a request is answered", min=0.01)] = 30.0,
    waiting: Annotated[int, Option(metavar="N", help="requests that may be under way or wait", min=1)] = 32,
    move_copies: MoveCopies = None,
    option: TableOptions = None,
    data_dir: DataDir = None,
) -> None:
    """Serve a saved model over HTTP: POST nodes and edges, get predictions. Its page is at /.

    It listens on this machine alone, unless --host says otherwise.
    """
    from graphshift.core.extras import require_extra

    for package in ("fastapi", "uvicorn"):
        require_extra(package, "serving")
    token = _token(token_file)
    listening = _bound(host, port)
    try:
        import uvicorn

        from graphshift.estimators.loading import load_model
        from graphshift.serving.app import Service, create_app
        from graphshift.serving.limits import Limits

        loaded = load_model(model)
        sizes: dict[str, Any] = {"bytes": max_bytes, "nodes": max_nodes, "edges": max_edges}
        limits = Limits(**sizes, seconds=timeout, waiting=waiting)
        base = _base(loaded, graph, edges, environment, option, data_dir)
        moved = None
        if move_copies or (move_copies is None and loaded.explored_ is not None):
            moved = calibrator(loaded, model, data_dir, needed=bool(move_copies))
        service = Service(loaded, base, limits, moved)
        hosts = ("127.0.0.1", "localhost", "[::1]") if host in _LOOPBACK else None
        app = create_app(service, token=token, hosts=hosts)
        if host not in _LOOPBACK and token is None:
            print(
                f"graphshift: note: everybody who reaches {host} may ask; --token-file FILE asks for a token.",
                file=sys.stderr,
            )
        listening.listen(1024)  # who asks from now on is answered
        shown = f"[{host}]" if ":" in host else host
        print(f"serving {model} on http://{shown}:{listening.getsockname()[1]}/ (Ctrl-C ends it)", flush=True)
        # A stop waits for the answers under way, not for clients that keep a connection open.
        how: dict[str, Any] = {"log_level": "warning", "server_header": False, "limit_concurrency": 4 * waiting + 64}
        config = uvicorn.Config(app, **how, timeout_graceful_shutdown=int(timeout) + 1)
        uvicorn.Server(config).run(sockets=[listening])
        print("stopped.")  # where the caller ignores Ctrl-C, uvicorn ends without raising it again
    except KeyboardInterrupt:
        print("stopped.")
    finally:
        listening.close()


def _token(path: Path | None) -> str | None:
    from graphshift.core.storage import read_text

    found = os.environ.get("GRAPHSHIFT_TOKEN") if path is None else read_text(path).strip()
    if found is None:
        return None
    if len(found) < 8 or not found.isascii() or not found.isprintable() or " " in found:
        where = "GRAPHSHIFT_TOKEN" if path is None else str(path)
        raise GraphshiftError(f"{where}: the token has {len(found)} characters; expected 8 or more, ASCII, no spaces.")
    return found


def _bound(host: str, port: int) -> socket.socket:
    """A socket on the address; taken before the model is read, so that a wrong one is told at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        why = error.strerror or error
        raise GraphshiftError(f"--host {host} --port {port}: cannot listen there: {why}.") from None
    return listening


def _base(
    model: Predictor,
    graph: str | None,
    edges: Path | None,
    environment: str | None,
    option: list[str] | None,
    data_dir: Path | None,
) -> Any:
    """The graph that changes are applied to: two frames, an environment, or None."""
    if graph is None:
        if environment is not None:
            raise GraphshiftError("--environment needs DATASET.")
        return None
    if tables := as_tables(graph, edges):
        return _frames(model, Path(tables[0]), tables[1], option)
    data = load_dataset(graph, option, data_dir)
    found = {one.name: one for environments in data.roles.values() for one in environments}
    if environment is None or environment not in found:
        given = "is missing" if environment is None else f"is {environment!r}"
        raise GraphshiftError(f"--environment {given}; expected one of {', '.join(found)}.")
    return found[environment]


def _frames(model: Predictor, nodes: Path, edges: Path, option: list[str] | None) -> Any:
    from graphshift.datasets.tables.graph import read_both

    if model.preparation_ is None:
        raise GraphshiftError(f"{nodes}: the model was not fitted on tables; give a dataset and --environment.")
    if given := pairs(option, "--option"):
        raise GraphshiftError(
            f"--option {next(iter(given))}: tables are read as the training tables were; leave it out."
        )
    preparation = model.preparation_
    model.prepare(nodes, edges)  # refuses what it cannot read
    tables = read_both(nodes, edges, preparation.layout, preparation.text_columns)
    return tuple(table.frame for table in tables)
