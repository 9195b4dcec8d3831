"""Forward passes of several contexts as one: the matrix products see all their tokens, attention each context its own.

    context a: 1 new token  ┐
    context b: 40 new tokens├─► input_ids [1, 42], positions of each context ─► one pass ─► logits where they are needed
    context c: 1 new token  ┘        keys and values go to the three caches

Nothing is padded. A pass takes about `prefill_chunk` tokens, so that it takes no more memory than one context's does:
first what writes or probes, then the prefills that have waited longest. A pass that fails is taken back and run again
context by context, so that an error (no memory, say) belongs to the context that causes it.

In deterministic mode a row's arithmetic must not depend on what else is in its pass. Kernels pick their blocks by the
number of rows, so every pass that contexts share has the same number (`fixed_rows`, filled up with a context of zeros),
and asks of more tokens run alone. Which of the two it is depends on the ask's own length.

What another context has read before, a document say, is copied from it (harness/llm/prefixes.py); where several would
read the same in one pass, one does, and the others copy it in the next. Its cost is booked as if it ran.
"""

import functools
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch

from harness.llm.capture import Capture, Pack, Part, WriteCapture, capturing, packed_attention
from harness.llm.cuda_graphs import RecordedSteps
from harness.llm.kernels import PackLayout, VarlenKernel
from harness.llm.kv import Slot, packed_cache, rewind, slot_of
from harness.llm.prefixes import SharedPrefix, copy_shared, shared_prefix
from harness.parallel.scheduler import result_or_error

# An ask of at most this many tokens writes, probes or reads a little; many of them cost little more than one.
_SHORT = 64
THREADS = torch.get_num_threads()  # what torch chose: one a core, or OMP_NUM_THREADS


@dataclass(frozen=True)
class Ask:
    """Run `ids` behind `cache` and return the last `logits` rows of logits; attention goes to `capture`.

    blocks: names of the blocks that `ids` complete (harness.llm.prefixes.block_names), which other contexts may copy;
    labels: tokens of a probe, whose logits are computed in float32.
    """

    ids: Sequence[int]
    cache: Any
    logits: int = 0
    capture: Capture | None = None
    blocks: Sequence[bytes] = ()
    labels: Sequence[int] = ()


class Network(Protocol):
    """A loaded network whose forward passes may be shared.

    prefill_chunk: most tokens of one pass; kernel: attends to the keys of all contexts in one call, None without one;
    pack_problem: why contexts cannot share a pass, None where they can;
    shares: whether a context may copy what another one has read;
    fixed_rows: rows of every shared pass in deterministic mode, 0 where none is shared, None in other modes.
    """

    net: Any
    device: torch.device
    prefill_chunk: int

    @property
    def shares(self) -> bool: ...  # noqa: D102

    @property
    def fixed_rows(self) -> int | None: ...  # noqa: D102

    @property
    def kernel(self) -> VarlenKernel | None: ...  # noqa: D102

    @property
    def pack_problem(self) -> str | None: ...  # noqa: D102

    def recorded_steps(self) -> RecordedSteps | None:
        """Recorded decode steps with the active adapter; None where steps are not recorded."""

    def adapter(self, name: str | None) -> AbstractContextManager[None]:
        """Enable this adapter inside, none for None."""


class ForwardLane:
    """The passes of one model with one adapter, for harness.parallel.scheduler."""

    ahead = False

    def __init__(self, model: Network, adapter: str | None) -> None:
        self._model, self._adapter = model, adapter
        self._limit = model.prefill_chunk

    def take(self, asks: Sequence[Ask]) -> list[int]:
        """Indices of the asks of the next pass: those of few tokens, then longer ones, each by their age.

        Together at most `prefill_chunk` tokens; the oldest of either kind is taken in any case.
        """
        copies = [shared_prefix(*_prefix_of(ask)) if ask.blocks else SharedPrefix() for ask in self._sharing(asks)]
        sizes = [len(ask.ids) - copied.tokens for ask, copied in zip(asks, copies, strict=True)]
        taken: list[int] = []
        begun: set[bytes] = set()
        room = self._limit
        short = [n for n, size in enumerate(sizes) if size <= _SHORT]
        long = [n for n, size in enumerate(sizes) if size > _SHORT]
        for indices in (short, long):
            for n in indices:
                if n != indices[0] and sizes[n] > room:
                    break
                if (block := copies[n].missing) is not None:
                    if n and block in begun:  # computed in this pass for another context, and copied in the next
                        continue
                    begun.add(block)
                room -= sizes[n]
                taken.append(n)
        return taken

    def run(self, asks: Sequence[Ask]) -> list[Any]:
        """Run the asks in as few passes as possible: logits of each (None for 0 rows), or the exception it raised."""
        if self._model.fixed_rows is not None and torch.get_num_threads() != THREADS:
            # Sums depend on how many threads share them, and libraries leave another number in their thread (UMAP).
            torch.set_num_threads(THREADS)
        results: dict[int, Any] = dict.fromkeys(range(len(asks)))
        rest = [_copy_shared(ask) for ask in self._sharing(asks)]
        with self._model.adapter(self._adapter):
            for group in self._groups(rest):
                results.update(zip(group, self._run_group([rest[n] for n in group]), strict=True))
        for n, ask in enumerate(rest):
            if not isinstance(results[n], Exception):
                slot_of(ask.cache).names.extend(ask.blocks)
        return [results[n] for n in range(len(asks))]

    def _sharing(self, asks: Sequence[Ask]) -> Sequence[Ask]:
        """The asks; where contexts share nothing, without the names of their blocks."""
        if not any(ask.blocks for ask in asks) or self._model.shares:
            return asks
        return [replace(ask, blocks=()) for ask in asks]

    def _groups(self, asks: Sequence[Ask]) -> list[list[int]]:
        """Indices of the asks that share a pass: all of them, or as many as `fixed_rows` hold, the shortest first."""
        groups = [[n] for n, ask in enumerate(asks) if ask.ids and _has_head_choices(ask)]
        some = [n for n, ask in enumerate(asks) if ask.ids and not _has_head_choices(ask)]
        if len(some) < 2 or self._model.pack_problem is not None:
            return [*groups, *([n] for n in some)]
        if (rows := self._model.fixed_rows) is None:
            return [*groups, some]
        room = 0
        for n in sorted(some, key=lambda n: len(asks[n].ids)):
            room -= len(asks[n].ids)
            if room < 0:
                groups.append([])
                room = rows - len(asks[n].ids)
            groups[-1].append(n)
        return groups

    def _run_group(self, asks: list[Ask]) -> list[Any]:
        """Run the asks in one pass; if that fails, take it back and run each alone. Logits or exception of each."""
        if len(asks) > 1:
            undo = [_undo_of(ask) for ask in asks]
            try:
                return self._run_together(asks)
            except Exception:  # noqa: BLE001 - whose error it is shows when each context runs alone
                self._limit = max(sum(len(ask.ids) for ask in asks) // 2, 1)
                for take_back in undo:
                    take_back()
        return [result_or_error(lambda ask=ask: self._run_alone(ask)) for ask in asks]  # type: ignore[misc]

    def _run_together(self, asks: Sequence[Ask]) -> list[torch.Tensor | None]:
        """Run the asks in one pass: of fixed rows in deterministic mode, recorded where they are decode steps."""
        model = self._model
        if model.fixed_rows is not None:
            return run_in_rows(model.net, model.device, asks, model.fixed_rows)
        eagerly = functools.partial(run_packed, model.net, model.device, asks, model.kernel)
        if self._steps is None or any(not _recordable(ask) for ask in asks):
            return eagerly()
        slots = [slot_of(ask.cache) for ask in asks]
        with slots[0].arena.lock:
            _make_room(asks)
            return self._steps.run([ask.ids[0] for ask in asks], slots, eagerly)

    @functools.cached_property
    def _steps(self) -> RecordedSteps | None:
        return self._model.recorded_steps()

    def _run_alone(self, ask: Ask) -> torch.Tensor | None:
        """Run one ask in a pass of its own."""
        if _has_head_choices(ask):
            return run_packed(self._model.net, self._model.device, [ask])[0]
        # The kernel gives the log-sum-exp of a single context too, which captures want.
        if len(ask.ids) <= (self._model.fixed_rows or 0) or self._model.kernel is not None:
            return self._run_together([ask])[0]
        return run_alone(self._model.net, self._model.device, ask)


def _recordable(ask: Ask) -> bool:
    """Whether the ask is a decode step whose position is the number of its keys."""
    return (len(ask.ids), ask.logits, ask.capture, *ask.labels) == (1, 1, None) and not slot_of(ask.cache).dropped


def _has_head_choices(ask: Ask) -> bool:
    """Whether each query head has its own choice of a bounded cache, which needs a mask and so a pass of its own."""
    return slot_of(ask.cache).copies > 1


def _prefix_of(ask: Ask) -> tuple[Slot, int, int, Sequence[bytes]]:
    """The arguments of `shared_prefix` and `copy_shared` for an ask."""
    return slot_of(ask.cache), len(ask.ids), ask.logits, ask.blocks


def _copy_shared(ask: Ask) -> Ask:
    """Copy what another context holds of an ask to its cache; returns the ask for the rest."""
    if not ask.blocks:
        return ask
    copied = copy_shared(*_prefix_of(ask))
    return replace(ask, ids=ask.ids[copied.tokens :], blocks=ask.blocks[copied.blocks :])


def _undo_of(ask: Ask) -> Callable[[], None]:
    """A function that restores the ask's cache and capture after a failed pass."""
    length = slot_of(ask.cache).read()
    undo_capture = ask.capture.undo() if ask.capture is not None else None

    def take_back() -> None:
        rewind(ask.cache, length)
        if undo_capture is not None:
            undo_capture()

    return take_back


def run_alone(net: Any, device: torch.device, ask: Ask) -> torch.Tensor | None:
    """One context's pass: float32 logits [ask.logits, vocab], None for 0 rows."""
    _make_room([ask])
    given = {
        "input_ids": torch.tensor([list(ask.ids)], device=device),
        "past_key_values": ask.cache,
        "use_cache": True,
    }
    if (slot := slot_of(ask.cache)).dropped:  # positions go on where the text does
        given["position_ids"] = torch.arange(slot.read(), slot.read() + len(ask.ids), device=device)[None]
    with torch.inference_mode(), capturing(ask.capture):
        if not ask.logits:
            net.get_decoder()(**given)
            return None
        return _logits(net, given, ask.logits, [ask.labels] * ask.logits)


def run_packed(
    net: Any, device: torch.device, asks: Sequence[Ask], kernel: VarlenKernel | None = None
) -> list[torch.Tensor | None]:
    """One pass over several contexts of one arena: logits as of `run_alone` for each of `asks`. Raises MemoryError."""
    _make_room(asks)
    order = list(range(len(asks)))
    if kernel is not None:  # it wants the contexts in the order of their places
        order.sort(key=lambda n: slot_of(asks[n].cache).start)
    parts: list[Part] = []
    ids: list[int] = []
    positions: list[int] = []
    logit_rows: list[int] = []
    for ask in (asks[n] for n in order):
        before = slot_of(ask.cache).read()
        parts.append(Part(len(ids), len(ids) + len(ask.ids), ask.cache, ask.capture))
        ids += ask.ids
        positions += range(before, before + len(ask.ids))
        logit_rows += range(len(ids) - ask.logits, len(ids))
    new, slots = [part.end - part.start for part in parts], [slot_of(part.cache) for part in parts]
    at = PackLayout(new, [slot.start for slot in slots], [slot.used[0] + n for slot, n in zip(slots, new, strict=True)])
    given = {
        "input_ids": torch.tensor([ids], device=device),
        "position_ids": torch.tensor([positions], device=device),
        "past_key_values": packed_cache([(part.cache, n) for part, n in zip(parts, new, strict=True)], device),
        # transformers takes a mask of four dimensions as it is; each context makes its own.
        "attention_mask": torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device),
        "use_cache": True,
    }
    found: list[torch.Tensor | None] = [None] * len(asks)
    with torch.inference_mode(), packed_attention(Pack(parts, slots[0].arena, kernel, at)):
        if not logit_rows:
            net.get_decoder()(**given)
            return found
        labels = [asks[n].labels for n in order for _ in range(asks[n].logits)]
        rows: Any = _logits(net, given, torch.tensor(logit_rows, device=device), labels)
    wanted = [n for n in order if asks[n].logits]
    for n, part in zip(wanted, rows.split([asks[n].logits for n in wanted]), strict=True):
        found[n] = part
    return found


def _logits(net: Any, given: dict[str, Any], keep: Any, labels: Sequence[Sequence[int]]) -> torch.Tensor:
    """Float32 logits [rows, vocab] of a pass; those of the tokens labels[n] in row n are computed in float32.

    In bfloat16 the logits of two labels are often one number, and a probe then a tie. Where the head is not a plain
    linear layer in memory (logits scaled or capped behind it, an adapter, quantised weights), its own logits stay.
    """
    head: Any = net.get_output_embeddings() if any(labels) else None
    thread = threading.get_ident()
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def look(_: Any, inputs: Any, out: torch.Tensor) -> None:
        if threading.get_ident() == thread:
            seen.append((inputs[0][0], out[0].float()))

    plain = type(head) is torch.nn.Linear and head.weight.dtype != torch.float32 and not head.weight.is_meta
    hook = head.register_forward_hook(look) if plain else None
    try:
        rows: torch.Tensor = net(**given, logits_to_keep=keep).logits[0].float()
    finally:
        if hook is not None:
            hook.remove()
    for hidden, out in seen:
        if torch.equal(out, rows):
            for n, ids in enumerate(map(list, labels)):
                state, bias = hidden[n].to(head.weight.device).float(), head.bias
                of_labels = head.weight[ids].float() @ state + (0 if bias is None else bias[ids].float())
                rows[n, ids] = of_labels.to(rows.device)
    return rows


def run_in_rows(net: Any, device: torch.device, asks: Sequence[Ask], rows: int) -> list[torch.Tensor | None]:
    """As `run_packed` in a pass of exactly `rows` tokens, padded with a context of zeros that is thrown away.

    Logits are computed for every row or for none, so that the last product always has `rows` rows too.
    """
    wanted = any(ask.logits for ask in asks)
    padded = [replace(ask, logits=len(ask.ids) if wanted else 0) for ask in asks]
    if missing := rows - sum(len(ask.ids) for ask in asks):
        padding = slot_of(asks[0].cache).arena.cache()
        padded.append(Ask([0] * missing, padding, missing if wanted else 0))
    outs = run_packed(net, device, padded)
    return [
        out[len(ask.ids) - ask.logits :] if out is not None and ask.logits else None
        for ask, out in zip(asks, outs, strict=False)
    ]


def _make_room(asks: Sequence[Ask]) -> None:
    """Begin a pass: reserve the positions of its new tokens in the arena. Raises MemoryError."""
    arena = slot_of(asks[0].cache).arena
    with arena.lock:
        arena.clock += 1
        for ask in asks:
            slot = slot_of(ask.cache)
            slot.reserve(slot.used[0] + len(ask.ids))
            kept = ask.capture if isinstance(ask.capture, WriteCapture) else None
            slot.before_leaving = functools.partial(kept.reduce, len(slot.used)) if kept is not None else None
