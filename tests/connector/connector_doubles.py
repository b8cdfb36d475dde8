"""Stand-ins for vLLM's requests, layers and block manager: what the two halves see of them."""

from types import SimpleNamespace
from typing import Any

import torch

from kamera.channels import ChunkKV
from kamera.engines.vllm.chunking import Wrapping
from kamera.engines.vllm.families import FAMILIES
from kamera.engines.vllm.model import ServedModel
from kamera.engines.vllm.pool import Pool, Shapes
from kamera.engines.vllm.scheduler import SchedulerHalf
from kamera.engines.vllm.settings import ConnectorSettings
from kamera.engines.vllm.worker import WorkerHalf
from kamera.identity import ModelKey, Shard
from kamera.rope import RopeSpec
from kamera.store import MemoryStore

LAYERS, HEADS, SIZE, BLOCK, BLOCKS = 2, 2, 8, 16, 64
SHAPES = Shapes({"k": (HEADS, SIZE), "v": (HEADS, SIZE)})
PAD, START, END = 9, 7, 8
"""Token ids: a placeholder, and the wrapper around an image."""
WRAPPING = Wrapping((START,), (END,), num_axes=3, placeholder=PAD, merge=2)
SPEC = RopeSpec(inv_freq=(1.0, 0.5, 0.25, 0.125), axes=(0, 1, 2, 0), num_axes=3, head_dim=SIZE)


class Layer:
    """An attention layer whose blocks lie as the CPU backend's do: keys transposed, values behind them."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        self.kv_cache = torch.zeros(BLOCKS, HEADS, BLOCK, 2 * SIZE, dtype=dtype)
        self.impl = self

    def do_kv_cache_update(self, layer, key, value, kv_cache, slots) -> None:
        rows = kv_cache.view(BLOCKS, HEADS, BLOCK * 2 * SIZE)
        keys = rows[..., : BLOCK * SIZE].view(BLOCKS, HEADS, SIZE, BLOCK)
        values = rows[..., BLOCK * SIZE :].view(BLOCKS, HEADS, BLOCK, SIZE)
        for token, slot in enumerate(slots.tolist()):
            keys[slot // BLOCK, :, :, slot % BLOCK] = key[token]
            values[slot // BLOCK, :, slot % BLOCK] = value[token]


def pool(dtype: torch.dtype = torch.float32) -> Pool:
    """A pool over LAYERS such layers."""
    return Pool([Layer(dtype) for _ in range(LAYERS)], SHAPES, BLOCK)


def drawn(num_tokens: int, seed: int = 0) -> ChunkKV:
    """Random KV."""
    generator = torch.Generator().manual_seed(seed)
    shape = (LAYERS, num_tokens, HEADS, SIZE)
    return ChunkKV({name: torch.randn(shape, generator=generator) for name in ("k", "v")})


class FakeModel(ServedModel):
    """A served model whose weights and tokenizer needn't be read."""

    def __init__(self, num_shards: int = 1) -> None:
        super().__init__(FAMILIES["qwen2_5_vl"], SPEC, SHAPES, num_shards)

    def keys(self, vllm_config: Any, epoch: str = "") -> tuple[ModelKey, ...]:
        return tuple(
            ModelKey(
                epoch, "qwen2_5_vl", "ab" * 32, "float32", None, SPEC.fingerprint(),
                {"kind": "gqa", "num_layers": LAYERS}, Shard(rank, self.num_shards, 0, LAYERS, 0, HEADS),
                None, "vllm-test",
            )
            for rank in range(self.num_shards)
        )  # fmt: skip

    def wrapping(self, vllm_config: Any) -> Wrapping:
        return WRAPPING


class Request:
    """vLLM's request, as far as the connector looks at it."""

    def __init__(
        self,
        name: str,
        ids: list[int],
        features: list[Any],
        *,
        salt: str | None = None,
        kamera: Any = None,
    ) -> None:
        self.request_id, self.prompt_token_ids, self.mm_features = name, ids, features
        self.cache_salt, self.num_computed_tokens = salt, 0
        self.kv_transfer_params = None if kamera is None else {"kamera": kamera}
        self.lora_request = self.prompt_embeds = None
        self.block_hashes = self.hashed()

    def hashed(self) -> list[tuple[str | None, int]]:
        """A block's name: the request's salt and the block's place."""
        return [(self.cache_salt, i) for i in range(len(self.prompt_token_ids) // BLOCK)]

    def update_block_hashes(self) -> None:
        self.block_hashes = [*self.block_hashes, *self.hashed()[len(self.block_hashes) :]]


class Media(dict):
    """Processed inputs that can be weakly referred to, as vLLM's are."""


def image(pixels: int, offset: int, rows: int = 4, columns: int = 6) -> Any:
    """A feature whose pixels all have this value; `rows` x `columns` patches, four of them a token."""
    data = Media(
        pixel_values=SimpleNamespace(data=torch.full((rows * columns, 3), float(pixels))),
        image_grid_thw=SimpleNamespace(data=torch.tensor([1, rows, columns])),
    )
    place = SimpleNamespace(offset=offset, length=rows * columns // 4)
    return SimpleNamespace(
        data=data,
        modality="image",
        mm_position=place,
        mm_hash=f"hash-{pixels}",
        identifier=f"hash-{pixels}",
    )


def shown(
    name: str, pixels: list[int], *, tail: int = 5, prefix: int = 4, **options: Any
) -> Request:
    """A prefix of text, images between their wrappers, and a tail."""
    ids, features = [100 + i for i in range(prefix)], []
    for value in pixels:
        features.append(image(value, len(ids) + 1))
        ids += [START, *[PAD] * 6, END]
    return Request(name, ids + [200 + i for i in range(tail)], features, **options)


def solo(name: str, pixels: int, **options: Any) -> Request:
    """One image alone."""
    return shown(name, [pixels], tail=0, prefix=0, kamera="solo", **options)


class Engine:
    """Both halves, and a model that answers with a chunk's KV by what stands in front of it."""

    def __init__(self, *, dtype: torch.dtype = torch.float32, **settings: Any) -> None:
        self.settings = ConnectorSettings(**{"min_tokens": 1, "rank": 64, **settings})
        self.store = MemoryStore(1 << 30)
        self.scheduler = SchedulerHalf(None, self.settings, FakeModel(), self.store)
        self.pool = pool(dtype)
        self.worker = WorkerHalf(self.settings, SPEC, self.pool, self.store, 0)
        self.blocks: dict[str, list[int]] = {}
        self.next_block = 1

    def get_block_ids(self, name: str) -> tuple[list[int], ...]:
        return (self.blocks[name],)

    def kv_of(self, request: Request) -> ChunkKV:
        """What prefill would cache: rotated to its positions, and depending on all in front."""
        tracked = self.scheduler._track(request)
        parts, front = [], 0
        for chunk, start in zip(tracked.chunks[0], tracked.starts(), strict=True):
            seed = int(chunk.digest[:6], 16)
            own, absorbed = drawn(chunk.num_tokens, seed), drawn(chunk.num_tokens, seed + front)
            mixed = {n: own.tensors[n] + (absorbed.tensors[n] if front else 0) for n in ("k", "v")}
            parts.append(ChunkKV(mixed).at(chunk.layout.at(start), SPEC, self.pool.dtype))
            front += seed
        return ChunkKV({n: torch.cat([p.tensors[n] for p in parts], 1) for n in ("k", "v")})

    def run(self, request: Request, *, num_local: int = 0) -> int:
        """Match, load, prefill the rest, capture. Gives the tokens that were loaded."""
        matched = self.step(request, num_local=num_local)
        self.worker.settle()
        return matched

    def step(self, request: Request, *, num_local: int = 0) -> int:
        """The same, without waiting for what is formed beside it."""
        name = request.request_id
        matched, _ = self.scheduler.match(request, num_local)
        count = -(-len(request.prompt_token_ids) // BLOCK)
        self.blocks[name] = list(range(self.next_block, self.next_block + count))
        self.next_block += count
        self.scheduler.allocated(request, self.blocks[name], matched)
        if matched:
            self.worker.start(self.scheduler.jobs({}, self))
            self.worker.settle()
            assert self.worker.finished() == {name}
            self.scheduler.loads_failed(self.worker.failed())
            if self.worker.failed_blocks():
                matched = 0
            self.scheduler.allocated(request, self.blocks[name], 0)
        if self.scheduler._track(request).num_chunks:
            kv = self.kv_of(request)
            done = num_local + matched
            if done < kv.num_tokens:
                rest = kv.slice_tokens(done, kv.num_tokens)
                slots = self.pool.slots(self.blocks[name], done, kv.num_tokens)
                self.pool.write(rest, slots)
        request.num_computed_tokens = num_local + matched
        left = len(request.prompt_token_ids) - request.num_computed_tokens
        self.worker.begin_step()
        self.worker.capture(self.scheduler.jobs({name: left}, self))
        self.worker.finished()
        return matched

    def in_blocks(self, request: Request) -> ChunkKV:
        """What the request's blocks hold of its chunks."""
        tracked = self.scheduler._track(request)
        return self.pool.read(self.pool.slots(self.blocks[request.request_id], 0, tracked.ends[-1]))

    def sums(self) -> dict[str, float]:
        """Both halves' counters since the last call."""
        return {**self.scheduler.stats.take(), **self.worker.taken()}
