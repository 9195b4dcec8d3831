"""A network that `model.device_map` spreads over two places.

There are no GPUs here: the first half of the layers is in memory, and the second half on disk, from
where accelerate's hooks read it for each pass, as they move inputs between GPUs. What the GPUs have
free is faked.
"""

from unittest import mock

import pytest
import torch

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.errors import CannotRun
from harness.llm import hf_model
from harness.llm.backend import load_model
from harness.llm.load import unload
from harness.llm.network import Network
from harness.storage.run_folder import read_run

RUN = [
    "run",
    "-m",
    "bm25",
    "-d",
    "pocket/musique",
    "--limit",
    "2",
    "--parallel",
    "2",
    "--mlflow",
    "off",
    "--model",
    "pocket-llama",
]
GIB = 2**30


@pytest.fixture
def two_places(monkeypatch):
    """The networks whose device map was "auto", with the place of each module."""
    load = hf_model.AutoModelForCausalLM.from_pretrained
    spread = []

    def load_spread(folder, **options):
        if options.get("device_map") != "auto":
            return load(folder, **options)
        layers = options["config"].num_hidden_layers
        places = {"model.embed_tokens": "cpu", "model.rotary_emb": "cpu"}
        places |= {f"model.layers.{n}": "cpu" for n in range(layers // 2)}
        places |= {f"model.layers.{n}": "disk" for n in range(layers // 2, layers)}
        places |= {"model.norm": "disk", "lm_head": "cpu"}
        loaded = load(folder, **{**options, "device_map": places})
        spread.append(loaded[0])
        return loaded

    monkeypatch.setattr(hf_model.AutoModelForCausalLM, "from_pretrained", load_spread)
    yield spread
    unload()


def answered(folder):
    """The run's name, which has its hash, and what was answered."""
    (found,) = (folder / "pocket~musique").iterdir()
    return found.name, [record.prediction for record in read_run(found).records]


def test_a_run_over_two_places_is_that_of_the_whole_network(two_places, here, tmp_path):
    here(*RUN, "--out", "spread", "--set", "model.device_map=auto").checked()
    (net,) = two_places
    assert {str(weights.device) for weights in net.parameters()} == {"cpu", "meta"}
    here(*RUN, "--out", "whole").checked()
    assert len(two_places) == 1
    assert answered(tmp_path / "spread") == answered(tmp_path / "whole")


def measured(model):
    """Attention while reading and writing, probabilities and scores of a session."""
    with model.session(Meter()) as s:
        s.user("Question:\n")
        asked = s.feed("Where is the school of Mira Tal?")
        read = s.feed("Mira Tal founded the school in 1902.", watch=[asked])
        probe = s.probe(["Yes", "No"])
        scores = s.score(" north of Abel")
        written = s.write(6, watch=[asked, read])
    return [*read.attention, *probe.mass.values(), *scores, *written.attention.ravel()]


def test_attention_and_probabilities_over_two_places_are_those_of_the_whole_network(
    two_places, tiny, tiny_folder
):
    config = ModelConfig(name="tiny", source=str(tiny_folder), device_map="auto")
    assert measured(load_model(config)) == pytest.approx(measured(tiny), abs=1e-6)
    assert len(two_places) == 1


@pytest.fixture
def two_gpus(monkeypatch):
    """Two GPUs of which the first has 6 GiB free and the second one 4; loading ends at once."""
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    free = {0: 6 * GIB, 1: 4 * GIB, None: 6 * GIB}
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda device: (free[device.index], 0))
    monkeypatch.setattr(
        hf_model.LoadedModel, "_load_network", mock.Mock(side_effect=CannotRun("loading has begun"))
    )


@pytest.mark.parametrize(
    ("gib", "device_map", "message"),
    [
        (5, None, "loading has begun"),
        (8, None, "needs about 8.6 GB"),
        (8, "auto", "loading has begun"),
        (10, "auto", "but 10.7 GB are free"),
    ],
)
def test_weights_must_fit_into_all_gpus_together(
    two_gpus, tiny_folder, tmp_path, gib, device_map, message
):
    folder = tmp_path / "large"
    folder.mkdir()
    for file in tiny_folder.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    with (folder / "more.safetensors").open("wb") as file:
        file.truncate(gib * GIB)  # a file with a hole: nothing is written
    config = ModelConfig(
        name="large", source=str(folder), device="cuda", device_map=device_map, window=64
    )
    with (
        mock.patch("harness.llm.model_info.hash_files", return_value="0"),
        pytest.raises(CannotRun, match=message),
    ):
        load_model(config)


def test_the_fullest_gpu_says_how_many_tokens_fit(two_gpus):
    network = Network.__new__(Network)
    network.device, network.dtype, network._memory_fraction = torch.device("cuda"), "float32", 0.5
    network.shape = mock.Mock(layers=4, kv_heads=1, head_size=32)
    network._other_networks = []
    network.net = torch.nn.Module()
    token = 2 * 4 * 32 * 4
    assert network._tokens_that_fit() == 3 * GIB // token
    network.net.hf_device_map = {"model.layers.0": 0, "model.layers.1": 1, "lm_head": "cpu"}
    assert network._tokens_that_fit() == 4 * GIB // token  # twice 4 GiB, of which it may take half
