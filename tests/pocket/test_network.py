"""The training network is LlamaForCausalLM, in float32 and on disk."""

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.errors import CannotRun
from harness.stats.rng import Dice
from harness.training.teacher import Teacher
from harness.training.token_rows import Tree, grow
from pocket.tasks.catalog import skills, stage
from pocket.tasks.recall import Drill, drill
from pocket.tasks.recipes import Recipe
from pocket.train import network
from pocket.train.network import Shape
from pocket.train.packing import Batch, fill
from tests.pocket.trees import replies, sequences

SHAPE = Shape(vocabulary=9216, width=32, layers=2, heads=4, inner=48, window=512)  # more than the tokenizer has
SMALL = Shape(vocabulary=40, width=16, layers=2, heads=2, inner=24, window=64)
ASKED = {
    "answer": Recipe(
        skill="answer", kinds=("musique", "qasper"), facts=(3, 9), ask={"one": 1, "nothing": 1}, questions=4
    ),
    "pecan search": Recipe(
        skill="pecan search", kinds=("musique",), facts=(3, 8), pieces=2, ask={"one": 1, "two": 1}, questions=2
    ),
    "pecan points": Recipe(skill="pecan points", kinds=("narrativeqa",), facts=(3, 5)),
}


def wild(shape: Shape, seed: int) -> dict[str, Tensor]:
    """Weights far from where training begins, so that no part of the network is too quiet to be compared."""
    noise = torch.Generator().manual_seed(seed)
    return {k: v + 0.2 * torch.randn(v.shape, generator=noise) for k, v in network.start(shape, seed).items()}


def rounded(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """As `save` keeps them, in float32."""
    return {k: v.bfloat16().float() for k, v in weights.items()}


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    return rounded(wild(SHAPE, 3))


@pytest.fixture(scope="module")
def exported(weights: dict[str, Tensor], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    network.save(weights, SHAPE, folder, (0, 1))
    return folder


@pytest.fixture(scope="module")
def llama(exported: Path) -> Any:
    from transformers import AutoModelForCausalLM, logging

    logging.disable_progress_bar()
    net, told = AutoModelForCausalLM.from_pretrained(str(exported), dtype=torch.float32, output_loading_info=True)
    assert type(net).__name__ == "LlamaForCausalLM"
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    assert not told["mismatched_keys"]
    return net.eval()


def trees(name: str, teacher: Teacher, drills: Drill) -> list[Tree]:
    if name == "recall":
        return [drill(drills, Dice("network", n), (2, 5)) for n in range(6)]
    skill = skills()[name]
    found: list[Tree] = []
    for n in range(6):
        found += grow([teacher.play(skill, s) for s in stage(ASKED[name], skill.scene, Dice(name, n))])
    return found


def alone(net: Any, trees: Iterator[Tree]) -> list[tuple[list[int], Tensor]]:
    """For every reply, run on its own as one sequence: its targets, and the logits before each."""
    found = []
    for tree in trees:
        for ids, targets in sequences(tree):
            with torch.no_grad():
                logits = net(torch.tensor([ids])).logits[0]
            found.append(([ids[t] for t in targets], logits[[t - 1 for t in targets]]))
    return found


@pytest.mark.parametrize("name", ["recall", *ASKED])
def test_packed_trees_have_the_losses_of_llama_on_each_sequence_alone(
    teacher: Teacher, drills: Drill, weights: dict[str, Tensor], llama: Any, name: str
) -> None:
    made = trees(name, teacher, drills)
    kept: list[Tree] = []

    def keeping() -> Iterator[Tree]:
        for tree in cycle(made):
            kept.append(tree)
            yield tree

    batch = fill(keeping(), rows=3, size=384, most=900)
    told = network.tensors(batch, "cpu")
    with torch.no_grad():
        loss, right = network.losses(weights, SHAPE, told, torch.float32)
        hidden = network.hidden(weights, SHAPE, told, torch.float32).reshape(-1, SHAPE.width)
    pairs = alone(llama, iter(made))
    every, likeliest = [], {}
    for group, (places, targets) in replies(batch).items():
        logits = hidden[places] @ weights["head"].T
        near = [theirs for tokens, theirs in pairs if tokens == targets and torch.allclose(theirs, logits, atol=1e-3)]
        assert near, f"reply {group} is no reply of {name} behind its own context"
        mine, theirs = (x.log_softmax(-1)[range(len(targets)), targets] for x in (logits, near[0]))
        assert (mine - theirs).abs().max() < 1e-4
        every += theirs.tolist()
        likeliest[group] = (near[0].argmax(-1) == torch.tensor(targets)).tolist()
    assert len(replies(batch)) > (2 if name == "pecan points" else 8)
    assert loss.item() == pytest.approx(-sum(every) / len(every), abs=1e-4)
    assert 5 < loss.item() < 60  # far from zero, so that agreement means something
    marked = [bool(r) for r, t in zip(right, batch.targets, strict=True) if t >= 0]
    assert marked == [r for group in likeliest.values() for r in group]


def test_what_no_mask_may_let_through_changes_nothing(
    teacher: Teacher, drills: Drill, weights: dict[str, Tensor]
) -> None:
    """Other tokens in one branch, or in another tree, leave a reply's hidden states as they are."""
    batch = fill(cycle(trees("answer", teacher, drills)), rows=2, size=384, most=400)
    told = network.tensors(batch, "cpu")
    with torch.no_grad():
        before = network.hidden(weights, SHAPE, told, torch.float32)
        own = batch.own[0]
        last = int(own.max())
        assert last > 3
        told["ids"] = torch.where(torch.from_numpy(batch.own == last), 7, told["ids"])
        after = network.hidden(weights, SHAPE, told, torch.float32)
    changed = (before[0] - after[0]).abs().amax(-1) > 1e-6
    assert changed.any()
    assert set(own[changed.numpy()].tolist()) == {last}


@pytest.mark.parametrize("block", [7, 64, 256])
def test_attention_in_blocks_is_that_in_one(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """300 tokens, so that no block size but the last divides them evenly; compared with torch's own attention."""
    noise = torch.Generator().manual_seed(1)
    query, key, value = (torch.randn(2, 3, 300, 8, generator=noise) for _ in range(3))
    seen = (torch.rand(2, 1, 300, 300, generator=noise) < 0.3).tril() | torch.eye(300, dtype=torch.bool)
    hidden_from = torch.where(seen, 0.0, -torch.inf)
    monkeypatch.setattr(network, "_BLOCK", block)
    found = network._attend(query, key, value, hidden_from)
    monkeypatch.setattr(network, "_BLOCK", 300)
    assert torch.allclose(found, network._attend(query, key, value, hidden_from), atol=1e-6)
    assert torch.allclose(found, torch.nn.functional.scaled_dot_product_attention(query, key, value, seen), atol=1e-5)


def blank(most: int = 4) -> Batch:
    batch = fill(cycle([Tree([1, 2, 3], [2], [])]), rows=1, size=12, most=most)
    batch.predict[:], batch.targets[:], batch.group[:] = 0, -100, -1
    return batch


def test_no_target_counts_as_right() -> None:
    _, right = network.losses(network.start(SMALL, 0), SMALL, network.tensors(blank(), "cpu"), torch.float32)
    assert not right.any()


# --- first weights and files ------------------------------------------------------------------------------------------


def test_first_weights_are_seeded() -> None:
    one, two, other = (network.start(SMALL, seed) for seed in (1, 1, 2))
    assert all(torch.equal(one[k], two[k]) for k in one)
    assert not torch.equal(one["embed"], other["embed"])
    assert {k for k in one if (one[k] == one[k].max()).all()} == {"norm", "0.norm1", "0.norm2", "1.norm1", "1.norm2"}


def test_what_is_loaded_is_what_was_saved(weights: dict[str, Tensor], exported: Path) -> None:
    found = network.load(exported, SHAPE)
    assert found.keys() == weights.keys()
    assert all(found[k].dtype == torch.float32 and torch.equal(found[k], v) for k, v in weights.items())


def test_saving_rounds_to_bfloat16_and_no_more(tmp_path: Path) -> None:
    fine = network.start(SMALL, 0)
    network.save(fine, SMALL, tmp_path, (0, 1))
    found = network.load(tmp_path, SMALL)
    assert all(torch.equal(found[k], v) for k, v in rounded(fine).items())


def test_the_config_says_what_the_network_is(exported: Path) -> None:
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(str(exported))
    assert config.architectures == ["LlamaForCausalLM"]
    assert (config.hidden_size, config.num_hidden_layers, config.vocab_size) == (32, 2, 9216)
    assert (config.max_position_embeddings, config.bos_token_id, config.eos_token_id) == (512, 0, 1)
    assert not config.tie_word_embeddings


OTHER = [
    ({"width": 32}, r"another shape: embed is \(40, 16\) there, \(40, 32\) here"),
    ({"vocabulary": 41}, r"another shape: embed is \(40, 16\) there, \(41, 16\) here"),
    ({"inner": 32}, r"another shape: 0.gate_up is \(48, 16\) there, \(64, 16\) here"),
    ({"layers": 3}, "of another shape: 2 layers there, 3 here"),
    ({"layers": 1}, "of another shape: 2 layers there, 1 here"),
]


@pytest.mark.parametrize(("change", "message"), OTHER)
def test_another_shape_is_refused(tmp_path: Path, change: dict[str, int], message: str) -> None:
    network.save(network.start(SMALL, 0), SMALL, tmp_path, (0, 1))
    with pytest.raises(CannotRun, match=message):
        network.load(tmp_path, Shape(**{**vars(SMALL), **change}))


def test_tensors_that_are_missing_or_too_many(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    network.save(network.start(SMALL, 0), SMALL, tmp_path, (0, 1))
    path = tmp_path / "model.safetensors"
    whole = load_file(str(path))
    save_file({**whole, "more": torch.ones(1), "than": torch.ones(1)}, str(path))
    with pytest.raises(CannotRun, match="have 2 tensors that a pocket model does not have, such as 'more'"):
        network.load(tmp_path, SMALL)
    save_file({k: v for k, v in whole.items() if k != "model.layers.1.mlp.up_proj.weight"}, str(path))
    with pytest.raises(CannotRun, match="lack 'model.layers.1.mlp.up_proj.weight'; they are of another shape"):
        network.load(tmp_path, SMALL)


@pytest.mark.parametrize("data", [None, b"", b"\xff" * 99])
def test_weights_that_cannot_be_read(tmp_path: Path, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(CannotRun, match=r"the weights in .* cannot be read \(.+\)"):
        network.load(tmp_path, SMALL)
