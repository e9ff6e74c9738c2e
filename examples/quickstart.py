"""The shortest way: load a dataset, train ERM and EERM, score them on the test environments."""

import tempfile

import graphshift as gs

data = gs.load("planted-structure", nodes=300)
for model in (gs.ERM("gcn", epochs=40), gs.EERM("gcn", views=3, edits_per_node=2, beta=1.0, epochs=40)):
    model.fit(data)
    scores = model.score(data.tests)
    print(f"{type(model).__name__:5s} " + "  ".join(f"{name} {value:.2f}" for name, value in scores.items()))

with tempfile.TemporaryDirectory() as folder:
    model.save(f"{folder}/model")
    again = gs.load_model(f"{folder}/model")
    print("loaded again, first predictions:", again.predict(data.tests[0])[:10])
