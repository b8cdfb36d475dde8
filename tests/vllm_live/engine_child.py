"""The engine's own process: `python engine_child.py FD`. vLLM with its scheduler and worker in here."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from answer import Answer

LABELS = ("point", "reason", "source")
MLA_OPTIONS = {
    "block_size": 16,
    # vLLM 0.32 on CPU: its rotary operator reads k_pe with a wrong stride.
    "compilation_config": {"custom_ops": ["all", "-rotary_embedding"]},
}


class ChildEngine:
    """`vllm.LLM` on one checkpoint, with counts of its vision tower."""

    def __init__(self, folder: str, kamera: dict[str, Any] | None, options: dict[str, Any]) -> None:
        from vllm import LLM
        from vllm.config import KVTransferConfig

        config = json.loads(Path(folder, "config.json").read_text())
        self.model_type = config["model_type"]
        if "kv_lora_rank" in config.get("text_config", config):
            options = MLA_OPTIONS | options
        if kamera is not None:
            options["kv_transfer_config"] = KVTransferConfig(
                kv_connector="KameraConnector",
                kv_role="kv_both",
                kv_load_failure_policy="recompute",
                kv_connector_extra_config=kamera,
            )
        defaults = {
            "dtype": "float32",
            "enforce_eager": True,
            "max_model_len": 2048,
            "enable_prefix_caching": False,
            "disable_log_stats": False,
        }
        self.llm = LLM(model=folder, **(defaults | options))
        self.tokenizer = self.llm.get_tokenizer()
        self.num_images_seen = 0
        alone = options.get("tensor_parallel_size", 1) == 1  # else the model isn't in this process
        if alone and "text_config" in config:
            self.llm.apply_model(self._count_images)

    def _count_images(self, model: Any) -> None:
        run = model.embed_multimodal

        def counted(**inputs: Any) -> Any:
            seen = run(**inputs)
            self.num_images_seen += len(seen)
            return seen

        model.embed_multimodal = counted

    def num_seen(self) -> int:
        """Images that the vision tower ran over so far."""
        return self.num_images_seen

    def ask(
        self,
        requests: Sequence[tuple[Sequence[Path], str]],
        *,
        salt: str | None = None,
        kamera: Any = None,
        max_tokens: int = 1,
    ) -> list[Answer]:
        """Chat requests of images and one question each, in one batch. `kamera` may be one for each."""
        prompts = [self._prompt(*request, salt) for request in requests]
        asked = kamera if isinstance(kamera, list) else [kamera] * len(requests)
        params = [self._params(one, max_tokens, logprobs=20) for one in asked]
        start = time.perf_counter()
        made = self._generate(prompts, params)
        wall_s = time.perf_counter() - start
        return [self._answer(one, wall_s) for one in made]

    def ask_text(self, texts: Sequence[Sequence[int]], *, kamera: Any = None) -> list[Answer]:
        """Prompts of token ids, in one batch."""
        prompts = [{"prompt_token_ids": list(ids)} for ids in texts]
        made = self._generate(prompts, self._params(kamera, 1, logprobs=20))
        return [self._answer(one, 0.0) for one in made]

    def solo(
        self, images: Sequence[Path], spans: Sequence[Sequence[int]], salt: str | None
    ) -> None:
        """A solo request for each, as the fill companion sends them."""
        prompts: list[dict[str, Any]] = [{"prompt_token_ids": list(ids)} for ids in spans]
        prompts += [self._with_images(self._marker(), [path]) for path in images]
        for prompt in prompts:
            if salt is not None:
                prompt["cache_salt"] = salt
        self._generate(prompts, self._params("solo", 1, logprobs=None))

    def stats(self) -> dict[str, float]:
        """Prometheus samples of this process, labels left out where they name the engine alone."""
        from prometheus_client import REGISTRY

        samples: dict[str, float] = {}
        for family in REGISTRY.collect():
            for sample in family.samples:
                labels = [v for k, v in sorted(sample.labels.items()) if k in LABELS]
                name = "/".join([sample.name, *labels])
                samples[name] = samples.get(name, 0.0) + sample.value
        return samples

    def run(self, source: str) -> Any:
        """Run test code in here; gives what it leaves in `result`."""
        names: dict[str, Any] = {"engine": self, "llm": self.llm}
        exec(source, names)
        return names.get("result")

    def _generate(self, prompts: Any, params: Any) -> Any:
        plain = {"add_special_tokens": False}  # the template wrote what there is
        return self.llm.generate(prompts, params, use_tqdm=False, tokenization_kwargs=plain)

    def _params(self, kamera: Any, max_tokens: int, logprobs: int | None) -> Any:
        from vllm import SamplingParams

        extra = None if kamera is None else {"kv_transfer_params": {"kamera": kamera}}
        return SamplingParams(
            max_tokens=max_tokens,
            temperature=0.0,
            logprobs=logprobs,
            extra_args=extra,
            ignore_eos=True,
        )

    def _prompt(self, images: Sequence[Path], question: str, salt: str | None) -> dict[str, Any]:
        content: list[dict[str, str]] = [{"type": "image"} for _ in images]
        content.append({"type": "text", "text": question})
        text = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        prompt = self._with_images(text, images)
        if salt is not None:
            prompt["cache_salt"] = salt
        return prompt

    def _with_images(self, text: str, paths: Sequence[Path]) -> dict[str, Any]:
        from PIL import Image

        images: list[Any] = [Image.open(path).convert("RGB") for path in paths]
        if self.model_type == "kimi_k25":
            chunks = [{"type": "image", "image": image, "uuid": None} for image in images]
            return {"prompt": text, "multi_modal_data": {"vision_chunk": chunks}}
        return {"prompt": text, "multi_modal_data": {"image": images}}

    def _marker(self) -> str:
        from vllm.model_executor.model_loader import get_model_cls

        marker = get_model_cls(self.llm.llm_engine.model_config).get_placeholder_str("image", 1)
        assert marker
        return str(marker)

    def _answer(self, made: Any, wall_s: float) -> Answer:
        (output,) = made.outputs
        return Answer(
            tuple(output.token_ids),
            {token: told.logprob for token, told in output.logprobs[0].items()},
            made.num_cached_tokens or 0,
            len(made.prompt_token_ids),
            tuple(_margin(told) for told in output.logprobs),
            wall_s,
            tuple(made.prompt_token_ids),
        )


def _margin(told: dict[int, Any]) -> float:
    best, second = sorted((one.logprob for one in told.values()), reverse=True)[:2]
    return best - second


def main() -> None:
    """Build the engine, then answer calls until the pipe is closed."""
    pipe = Connection(int(sys.argv[1]))
    engine = None
    while True:
        try:
            message = pipe.recv()
        except EOFError:
            os._exit(0)  # what was published is on disk; vLLM's own way out takes seconds
        try:
            if engine is None:
                engine, value = ChildEngine(*message), None
            else:
                name, args, kwargs = message
                value = getattr(engine, name)(*args, **kwargs)
            pipe.send((True, value))
        except Exception:
            pipe.send((False, traceback.format_exc()))


if __name__ == "__main__":
    main()
