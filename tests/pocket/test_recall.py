"""Exercises of recall: the answer stands once in the text, beside what is asked for."""

import re

import pytest

from harness.stats.rng import Dice
from pocket.tasks.recall import PARTS, pair_drill, parts_drill
from pocket.world.names import ENDINGS, short_names


def test_things_are_single_tokens(teacher, drills):
    words = drills.one_token_words
    assert len(set(words)) == len(words) == sum(len(short_names(kind)) for kind in ENDINGS) + 900
    small = {token for ids in (*drills.fillers, *drills.after) for token in ids}
    assert not small & set(drills.one_token_words)
    assert teacher.plain("Toren")[0] in drills.one_token_words


@pytest.mark.parametrize("between", [0, 2])
@pytest.mark.parametrize("pairs", [(1, 1), (2, 5), (4, 4), (12, 30)])
def test_each_pair_is_asked_for_once(drills, pairs, between):
    things, counts = set(drills.one_token_words), set()
    for n in range(60):
        tree = pair_drill(drills, Dice("drill", n), pairs, between)
        told = [token for token in tree.trunk if token in things]
        counts.add(len(told) // 2)
        assert len(set(told)) == len(told) == 2 * len(tree.branches)  # nothing stands there twice
        assert not tree.targets
        for at, branch in enumerate(tree.branches):
            assert branch.at == len(tree.trunk)
            assert branch.targets == [len(branch.ids) - 1]
            assert [token for token in branch.ids if token in things] == told[2 * at : 2 * at + 2]
            assert between or list(branch.ids) == told[2 * at : 2 * at + 2]
    assert min(counts) >= pairs[0]
    assert max(counts) <= pairs[1]
    assert len(counts) > 1 or pairs[0] == pairs[1]


def test_a_name_is_asked_for_the_number_of_its_part(drills, teacher):
    things, counts = set(drills.one_token_words), set()
    numbers = [teacher.plain(f"Action: {n}")[-1] for n in range(PARTS)]
    for n in range(60):
        tree = parts_drill(drills, Dice("parts", n), (2, 6), 5)
        text = teacher.text.tokenizer.decode(tree.trunk)
        heads = list(re.finditer(r"\n(?:Summary |Page |Part )?(\d): ", text))
        assert [int(h.group(1)) for h in heads] == list(range(len(heads)))
        counts.add(len(heads))
        ends = [*(h.start() for h in heads[1:]), len(text)]
        told = [text[h.end() : end] for h, end in zip(heads, ends, strict=True)]
        assert len(tree.branches) == min(24, sum(token in things for token in tree.trunk))
        for branch in tree.branches:
            (name,) = (token for token in branch.ids if token in things)
            right = numbers.index(branch.ids[-1])
            assert branch.targets == [len(branch.ids) - 1]
            assert teacher.text.tokenizer.decode([name]) in told[right]
    assert (min(counts), max(counts)) == (2, 6)
