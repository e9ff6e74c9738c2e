from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import pytest
import torch
from sklearn.metrics import accuracy_score
from torch_geometric.data import Data

from graphshift.backbones import GCN
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.environment import Environment, as_environment, as_environments
from graphshift.data.tasks import Task
from reference import dense_of, random_data

BINARY = Task("binary", 2)
REGRESSION = Task("regression", 0)


def path(**changes: object) -> Data:
    """The path 0 – 1 – 2 – 3 with two features; ``changes`` replaces attributes, None takes one away."""
    fields: dict[str, object] = {
        "x": torch.arange(8.0).view(4, 2),
        "edge_index": torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]),
        "y": torch.tensor([0, 1, 1, 0]),
    }
    fields |= changes
    return Data(**{key: value for key, value in fields.items() if value is not None})


def put(tensor: torch.Tensor, place: tuple[int, ...], value: float) -> torch.Tensor:
    tensor = tensor.clone()
    tensor[place] = value
    return tensor


X, EDGES, Y = path().x, path().edge_index, path().y

REFUSED: dict[str, tuple[dict[str, object], Task | None, list[str]]] = {
    # what is given: attributes, task, what the message must say beside the environment's name
    "no x": ({"x": None}, None, ["`x`", "NoneType", "[nodes, features]", "ones"]),
    "x of one dimension": ({"x": torch.ones(4)}, None, ["`x`", "[4]", "[nodes, features]"]),
    "x without columns": ({"x": torch.ones(4, 0)}, None, ["`x`", "[4, 0]", "[nodes, features]"]),
    "x of integers": ({"x": torch.ones(4, 2).long()}, None, ["`x`", "torch.int64", "x.float()"]),
    "NaN in x": ({"x": put(X, (2, 1), math.nan)}, None, ["`x`", "1 NaN", "node 2, column 1"]),
    "infinity in x": ({"x": put(X, (3, 0), -math.inf)}, None, ["`x`", "1 NaN or infinite", "node 3, column 0"]),
    "NaN in sparse x": ({"x": put(X, (2, 1), math.nan).to_sparse()}, None, ["`x`", "1 NaN or infinite"]),
    "infinity in CSR x": ({"x": put(X, (2, 1), math.inf).to_sparse_csr()}, None, ["`x`", "1 NaN or infinite"]),
    "no edge_index": ({"edge_index": None}, None, ["`edge_index`", "NoneType", "[2, edges]", "torch.empty(2, 0"]),
    "edge_index transposed": ({"edge_index": EDGES.t()}, None, ["`edge_index`", "[6, 2]", "[2, edges]"]),
    "edge_index of floats": ({"edge_index": EDGES.float()}, None, ["`edge_index`", "torch.float32", "int64"]),
    "edge_index of booleans": ({"edge_index": EDGES > 0}, None, ["`edge_index`", "torch.bool", "int64"]),
    "edge out of range": ({"edge_index": put(EDGES, (1, 4), 4)}, None, ["1 edges", "0…3", "edge 4", "[2, 4]"]),
    "negative edge": ({"edge_index": put(EDGES, (0, 5), -1)}, None, ["1 edges", "0…3", "edge 5", "[-1, 2]"]),
    "weights of another length": ({"edge_weight": torch.ones(5)}, None, ["`edge_weight`", "[5]", "[6]"]),
    "weights of two dimensions": ({"edge_weight": torch.ones(6, 1)}, None, ["`edge_weight`", "[6, 1]", "[6]"]),
    "NaN weight": ({"edge_weight": put(torch.ones(6), (3,), math.nan)}, None, ["1 edge weights", "edge 3", "nan"]),
    "infinite weight": ({"edge_weight": put(torch.ones(6), (3,), math.inf)}, None, ["1 edge weights", "inf"]),
    "weight 0": ({"edge_weight": put(torch.ones(6), (1,), 0)}, None, ["1 edge weights", "edge 1", "0.0", "positive"]),
    "negative weight": ({"edge_weight": -torch.ones(6)}, None, ["6 edge weights", "edge 0", "-1.0"]),
    "mask of numbers": ({"mask": torch.ones(4)}, None, ["`mask`", "torch.float32 [4]", "bool [4]"]),
    "mask of node numbers": ({"mask": torch.tensor([0, 2])}, None, ["`mask`", "torch.int64 [2]", "bool [4]"]),
    "mask of another length": ({"mask": torch.ones(5).bool()}, None, ["`mask`", "torch.bool [5]", "bool [4]"]),
    "empty mask": ({"mask": torch.zeros(4).bool()}, None, ["`mask`", "empty", "at least one"]),
    "no y and no task": ({"y": None}, None, ["no `y`", "pass `task`"]),
    "y of another length": ({"y": torch.tensor([0, 1])}, None, ["`y`", "[2]", "[4]"]),
    "y as one-hot": ({"y": torch.eye(4)}, None, ["`y`", "[4, 4]", "[4]"]),
    "class above": ({"y": torch.tensor([0, 1, 2, 5])}, BINARY, ["2 counted nodes", "0…1", "node 2: 2", "`mask`"]),
    "negative class": ({"y": torch.tensor([0, 1, 2, -1])}, None, ["1 counted nodes", "0…2", "node 3: -1"]),
    "fractions as classes": ({"y": torch.tensor([0, 1, 0.5, 1])}, BINARY, ["`y`", "torch.float32", "fractions"]),
    "NaN value": ({"y": torch.tensor([0.1, math.nan, 0.5, math.inf])}, None, ["2 counted nodes", "`y`", "`mask`"]),
}


@pytest.mark.parametrize(("changes", "task", "words"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_and_named(
    changes: dict[str, object], task: Task | None, words: list[str]
) -> None:
    with pytest.raises(GraphshiftError) as caught:
        Environment("Lyon", path(**changes), task)
    for word in ["environment 'Lyon'", *words]:
        assert word in str(caught.value)


# --- what is taken


def test_further_labels_are_checked_and_kept() -> None:
    data = Data(x=torch.rand(3, 2), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0, 1, 2]))
    data.further_y = torch.tensor([[-1], [2], [-1]])
    made = Environment("graph", data)
    assert made.members.int().tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 1]]
    assert torch.equal(Environment("again", made.data).members, made.members)
    assert made.replace(y=None).further_y is None
    for wrong, message in (
        (torch.tensor([1, 2, 0]), r"expected int64 \[3, k\]"),
        (torch.rand(3, 1), r"expected int64 \[3, k\]"),
        (torch.tensor([[3], [0], [0]]), "other values than -1"),
    ):
        data.further_y = wrong
        with pytest.raises(GraphshiftError, match=message):
            Environment("graph", data)


def test_an_environment_holds_what_it_was_given() -> None:
    environment = Environment("Lyon", path(mask=torch.tensor([True, False, True, True])))
    assert (environment.num_nodes, environment.num_features) == (4, 2)
    assert environment.task == BINARY
    assert environment.counted.tolist() == [0, 2, 3]
    assert environment.labels.tolist() == [0, 1, 0]
    assert environment.majority == pytest.approx(2 / 3)
    assert torch.equal(environment.x, X)
    assert torch.equal(environment.graph.adjacency.to_dense(), dense_of(path()).float())
    assert repr(environment) == "Environment('Lyon', 4 nodes, 6 edges, 2 features, 3 counted)"


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (torch.tensor([0, 1, 1, 0]), BINARY),
        (torch.tensor([False, True, True, False]), BINARY),
        (torch.tensor([0, 0, 0, 0]), BINARY),
        (torch.tensor([0, 1, 2, 0]), Task("multiclass", 3)),
        (torch.tensor([0.0, 1.0, 1.0, 0.0]), REGRESSION),
        (torch.tensor([[0], [4], [1], [0]]), Task("multiclass", 5)),
    ],
)
def test_the_task_is_inferred(y: torch.Tensor, task: Task) -> None:
    environment = Environment("Lyon", path(y=y))
    assert environment.task == task
    assert environment.y.dtype == (torch.float32 if task == REGRESSION else torch.int64)
    assert environment.y.tolist() == y.flatten().tolist()


def test_integer_labels_can_be_values_if_the_task_says_so() -> None:
    assert Environment("Lyon", path(), REGRESSION).y.tolist() == [0.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (torch.tensor([0, 1, -1, 99]), None),
        (torch.tensor([0.0, 1.0, math.nan, -math.inf]), BINARY),
        (torch.tensor([0.0, 1.0, math.nan, math.inf]), REGRESSION),
    ],
)
def test_labels_outside_the_mask_are_never_looked_at(y: torch.Tensor, task: Task | None) -> None:
    environment = Environment("Lyon", path(y=y, mask=torch.tensor([True, True, False, False])), task)
    assert environment.task == (task or BINARY)
    assert environment.labels.tolist() == [0, 1]
    output = torch.tensor([[0.5], [1.0], [7.0], [-7.0]])
    assert environment.risk(output).item() == pytest.approx(environment.task.loss(output[:2], y[:2]).item())


def test_a_graph_without_labels_can_be_predicted_but_not_scored() -> None:
    environment = Environment("Lyon", path(y=None), BINARY)
    assert environment.y is None
    with pytest.raises(GraphshiftError, match=r"'Lyon' has no labels `y`"):
        environment.risk(torch.zeros(4, 1))


def test_doubles_and_short_integers_are_taken() -> None:
    environment = Environment("Lyon", path(x=X.double(), edge_index=EDGES.int(), edge_weight=torch.ones(6).double()))
    assert environment.x.dtype == environment.graph.weight.dtype == torch.float32
    assert environment.graph.keys.dtype == torch.int64


@pytest.mark.parametrize("nodes", [1, 4])
def test_graphs_without_edges_and_of_one_node_are_fine(nodes: int) -> None:
    data = Data(x=torch.ones(nodes, 2), edge_index=torch.empty(2, 0, dtype=torch.int64), y=torch.zeros(nodes).long())
    environment = Environment("Lyon", data)
    assert environment.graph.num_edges == 0
    output = GCN(2, 1).eval()(environment.x, environment.graph)
    assert bool(torch.isfinite(environment.risk(output)))


def test_isolated_nodes_are_fine() -> None:
    environment = Environment("Lyon", path(edge_index=torch.tensor([[0, 1], [1, 0]])))
    assert environment.graph.degree.tolist() == [1, 1, 0, 0]


def test_the_input_is_left_alone() -> None:
    data = path(edge_index=torch.tensor([[2, 0, 1, 0], [1, 1, 1, 1]]), edge_weight=torch.tensor([1.0, 2.0, 3.0, 4.0]))
    before = data.clone()
    with pytest.warns(GraphshiftWarning):
        Environment("Lyon", data)
    for key in before.keys():  # noqa: SIM118
        assert torch.equal(data[key], before[key])


# --- what is repaired


def test_duplicate_edges_are_removed_and_counted() -> None:
    edges = torch.tensor([[0, 1, 1, 0, 2, 0], [1, 0, 2, 1, 1, 1]])
    with pytest.warns(GraphshiftWarning, match=r"environment 'Lyon': removed 2 duplicate edges\.$"):
        environment = Environment("Lyon", path(edge_index=edges))
    assert torch.equal(environment.graph.adjacency.to_dense(), dense_of(path(edge_index=edges)).float())
    assert environment.graph.num_edges == 4
    assert environment.graph.undirected


def test_of_duplicate_weighted_edges_the_first_weight_stays() -> None:
    edges, weight = torch.tensor([[3, 1, 0, 0], [2, 0, 1, 1]]), torch.tensor([9.0, 5.0, 5.0, 7.0])
    with pytest.warns(GraphshiftWarning, match=r"removed 1 duplicate edges, keeping the first weight"):
        environment = Environment("Lyon", path(edge_index=edges, edge_weight=weight))
    dense = environment.graph.adjacency.to_dense()
    assert (dense[2, 3], dense[0, 1], dense[1, 0]) == (9.0, 5.0, 5.0)


def test_self_loops_are_removed_and_counted() -> None:
    edges = torch.cat([torch.tensor([[3, 1], [3, 1]]), EDGES], dim=1)
    weight = torch.tensor([100.0, 100.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    with pytest.warns(GraphshiftWarning, match=r"environment 'Lyon': removed 2 self-loops"):
        environment = Environment("Lyon", path(edge_index=edges, edge_weight=weight))
    expected = dense_of(path(edge_weight=weight[2:])).float()
    assert torch.equal(environment.graph.adjacency.to_dense(), expected)


def test_the_data_of_an_environment_makes_the_same_environment_silently() -> None:
    with pytest.warns(GraphshiftWarning):
        first = Environment("Lyon", path(edge_index=torch.cat([EDGES, EDGES], dim=1), edge_weight=torch.ones(12)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = Environment("Lyon", first.data)
    assert torch.equal(first.graph.keys, second.graph.keys)
    assert torch.equal(first.graph.weight, second.graph.weight)
    assert torch.equal(first.y, second.y)


# --- what is computed


@pytest.mark.parametrize("sparse", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr, torch.Tensor.to_sparse_csc])
def test_sparse_features_give_the_same_as_dense_ones(sparse: Callable[[torch.Tensor], torch.Tensor]) -> None:
    data = random_data(weighted=True)
    data.x = data.x * (data.x > 0.3)
    dense = Environment("dense", data)
    data = data.clone()
    data.x = sparse(data.x)
    other = Environment("sparse", data)
    assert (other.num_nodes, other.num_features) == (dense.num_nodes, dense.num_features)
    assert torch.equal(other.data.x.to_dense(), dense.x)
    backbone = GCN(dense.num_features, 1).eval()
    outputs = [backbone(e.x, e.graph) for e in (dense, other)]
    torch.testing.assert_close(outputs[0], outputs[1])
    torch.testing.assert_close(dense.risk(outputs[0]), other.risk(outputs[1]))
    gradients = [
        torch.autograd.grad(e.risk(o), backbone.parameters()) for e, o in zip((dense, other), outputs, strict=True)
    ]
    torch.testing.assert_close(gradients[0], gradients[1])


def test_risk_and_score_are_over_the_counted_nodes() -> None:
    mask = torch.tensor([True, True, False, True])
    environment = Environment("Lyon", path(mask=mask))
    output = torch.tensor([[1.0], [2.0], [-50.0], [-3.0]])
    expected = [math.log(1 + math.exp(1)), math.log(1 + math.exp(-2)), math.log(1 + math.exp(-3))]
    assert environment.risk(output).item() == pytest.approx(sum(expected) / 3, rel=1e-6)
    assert environment.score(output) == pytest.approx(accuracy_score([0, 1, 0], [1, 1, 0]))


def test_a_score_that_cannot_be_had_names_the_environment() -> None:
    environment = Environment("Lyon", path(y=torch.ones(4).long()), Task("binary", 2, "roc_auc"))
    with pytest.raises(GraphshiftError, match=r"environment 'Lyon': ROC-AUC needs nodes of both classes"):
        environment.score(torch.randn(4, 1))


def test_a_copy_with_another_mask_counts_other_nodes() -> None:
    environment = Environment("Lyon", path())
    assert environment.labels.numel() == 4  # computed before the copy is made
    copy = environment.replace(name="half", mask=torch.tensor([False, False, True, True]))
    assert (copy.name, copy.counted.tolist(), copy.labels.tolist()) == ("half", [2, 3], [1, 0])
    assert (environment.name, environment.labels.numel()) == ("Lyon", 4)
    with pytest.raises(TypeError, match="masks"):
        environment.replace(masks=copy.mask)


@pytest.mark.parametrize("columns", [[], [0], [3, 1, 3], range(5)], ids=str)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_copy_without_some_columns_has_zeros_there(columns: list[int], sparse: bool) -> None:
    data = random_data()
    data.x = data.x * (data.x.abs() > 0.3)
    expected = data.x.clone()
    for column in columns:
        expected[:, column] = 0
    before = data.x.clone()
    if sparse:
        data.x = data.x.to_sparse_csr()
    environment = Environment("Lyon", data)
    assert environment.labels.numel() == 9
    copy = environment.without(columns)
    x, own = (e.x.to_dense() if sparse else e.x for e in (copy, environment))
    assert torch.equal(x, expected)
    assert torch.equal(own, before)  # the original is left alone
    assert type(copy.x) is type(environment.x)
    assert copy.graph is environment.graph
    assert (copy.name, copy.num_features) == ("Lyon", 5)
    assert torch.equal(copy.labels, environment.labels)
    backbone = GCN(5, 1).eval()
    torch.testing.assert_close(backbone(copy.x, copy.graph), backbone(expected, environment.graph))


def test_moving() -> None:
    environment = Environment("Lyon", path())
    assert environment.to(torch.device("cpu")) is environment
    moved = environment.to(torch.device("meta"))
    assert {moved.x.device.type, moved.y.device.type, moved.mask.device.type, moved.graph.device.type} == {"meta"}


def test_graphs_are_taken_alone_or_together() -> None:
    known = Environment("known", path())
    assert as_environment(known) is known
    assert as_environment(path(), name="mine").name == "mine"
    assert [e.name for e in as_environments(path(), name="val")] == ["val"]
    assert [e.name for e in as_environments([path(), known, path()], name="train")] == ["train0", "known", "train2"]
    assert [e.task for e in as_environments((path() for _ in range(2)), REGRESSION)] == [REGRESSION, REGRESSION]
    for wrong in (3, torch.ones(2), [torch.ones(2)]):
        with pytest.raises(GraphshiftError, match=r"expected an Environment or a torch_geometric\.data\.Data"):
            as_environments(wrong)


def test_edge_attributes_are_kept() -> None:
    data = random_data()
    data.edge_attr = torch.rand(data.num_edges, 2)
    environment = Environment("e", data)
    assert environment.num_edge_features == 2
    kept = dict(zip(map(tuple, environment.graph.edge_index.t().tolist()), environment.data.edge_attr, strict=True))
    for pair, row in zip(data.edge_index.t().tolist(), data.edge_attr, strict=True):
        assert torch.equal(kept[tuple(pair)], row)
    other = environment.replace(graph=environment.graph.filled("zeros"))
    assert other.fingerprint() == environment.fingerprint()
    data.edge_attr = data.edge_attr + 1
    assert Environment("e", data).fingerprint() != environment.fingerprint()


def test_a_fingerprint_tells_any_change() -> None:
    base = random_data(weighted=True)
    found = {Environment("e", base).fingerprint()}
    assert Environment("e", base.clone()).fingerprint() in found
    for change in ("x", "edge_weight", "y", "edge_index", "mask", "time"):
        data = base.clone()
        if change == "edge_index":
            data.edge_index, data.edge_weight = data.edge_index[:, 1:], data.edge_weight[1:]
        elif change == "mask":
            data.mask = torch.arange(data.num_nodes) < 5
        elif change == "y":
            data.y = 1 - data.y
        elif change == "time":
            data.time = torch.arange(data.num_nodes)
        else:
            data[change] = data[change] * 2
        found.add(Environment("e", data).fingerprint())
    assert len(found) == 7


def test_nodes_may_have_a_time_and_that_of_edges_is_left_aside() -> None:
    nodes, edges = path().num_nodes, path().num_edges
    assert nodes != edges
    assert Environment("Lyon", path(time=torch.arange(edges))).time is None
    assert Environment("Lyon", path()).time is None
    assert "time" not in Environment("Lyon", path()).data
    timed = Environment("Lyon", path(time=torch.arange(nodes)))
    assert Environment("again", timed.data).time.tolist() == list(range(nodes))
    assert timed.to(torch.device("meta")).time.device.type == "meta"
