"""vLLM's own server over HTTP, and clients of it."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from answer import Answer
from environment import PYTHON, environment
from places import checkpoint

NAME = "nano"
START_S, REQUEST_S, FILL_S = 240, 120, 180
FILL_ARGUMENTS = ("--middleware", "kamera.engines.vllm.fill.middleware.FillMiddleware")
FILL_PLUGINS = "kamera,kamera_fill"
COMMON = (
    "--served-model-name", NAME, "--dtype", "float32", "--enforce-eager", "--max-model-len", "2048",
    "--enable-prompt-tokens-details", "--max-logprobs", "20", "--disable-access-log-for-endpoints", "/health",
)  # fmt: skip


class Server:
    """A server in processes of its own.

    Args:
        command: what to run, but for the port.
        log: where it writes.
        variables: of its environment.
    """

    def __init__(self, command: Sequence[str], log: Path, **variables: str) -> None:
        self.log = log
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [*command[:1], *(part.format(port=port) for part in command[1:])],
                env=environment(**variables),
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    @classmethod
    def kamera(cls, model: str, log: Path, *options: str, vllm: Sequence[str] = ()) -> Self:
        """`kamera serve`."""
        kamera = [str(Path(PYTHON).with_name("kamera")), "serve", str(checkpoint(model))]
        return cls([*kamera, "--port", "{port}", *options, "--", *COMMON, *vllm], log)

    @classmethod
    def vllm(
        cls, model: str, log: Path, *options: str, kamera: Mapping[str, Any] | None = None
    ) -> Self:
        """vLLM's own command: plain, or with the plug-in named and its companion beside it."""
        command = [PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1"]
        command += ["--port", "{port}", "--model", str(checkpoint(model)), *COMMON, *options]
        if kamera is None:
            return cls(command, log)
        transfer = {
            "kv_connector": "KameraConnector",
            "kv_role": "kv_both",
            "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": dict(kamera),
        }
        written = json.dumps(transfer).replace("{", "{{").replace("}", "}}")
        command += ["--kv-transfer-config", written, *FILL_ARGUMENTS]
        return cls(command, log, VLLM_PLUGINS=FILL_PLUGINS, VLLM_SERVER_DEV_MODE="1")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """As an operator does: SIGTERM, then time to end."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def metrics(self) -> dict[str, float]:
        """Prometheus samples, summed over all labels but the ones that tell them apart."""
        samples: dict[str, float] = {}
        for line in httpx.get(f"{self.url}/metrics", timeout=REQUEST_S).text.splitlines():
            found = re.fullmatch(r"([a-z_:]+)(?:\{(.*)\})? (\S+)", line)
            if found is None:
                continue
            labels = re.findall(r'(?:point|reason|source)="([^"]*)"', found[2] or "")
            name = "/".join([found[1], *labels])
            samples[name] = samples.get(name, 0.0) + float(found[3])
        return samples

    def fill(self) -> dict[str, Any]:
        """`GET /kamera/fill`."""
        told: dict[str, Any] = httpx.get(f"{self.url}/kamera/fill", timeout=REQUEST_S).json()
        return told

    def forget_prefixes(self) -> None:
        """Empty vLLM's own prefix cache; the connector's store stays."""
        httpx.post(f"{self.url}/reset_prefix_cache", timeout=REQUEST_S).raise_for_status()

    def until_filled(self) -> dict[str, Any]:
        """Wait until the companion has nothing left to send, some times in a row."""
        deadline, quiet = time.monotonic() + FILL_S, 0
        while quiet < 3:
            assert time.monotonic() < deadline, f"still filling: {self.fill()}"
            time.sleep(0.2)
            told = self.fill()
            quiet = 0 if told["num_waiting"] else quiet + 1
        return told

    async def ask(
        self,
        client: httpx.AsyncClient,
        images: Sequence[Path],
        question: str,
        *,
        kamera: Any = None,
        salt: str | None = None,
        max_tokens: int = 1,
    ) -> Answer:
        """One chat request; no time-out but the client's."""
        content: list[dict[str, Any]] = [
            {"type": "image_url", "image_url": {"url": data_url(image)}} for image in images
        ]
        content.append({"type": "text", "text": question})
        body: dict[str, Any] = {
            "model": NAME,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "logprobs": True,
            "top_logprobs": 20,
            "return_tokens_as_token_ids": True,
        }
        if kamera is not None:
            body["kv_transfer_params"] = {"kamera": kamera}
        if salt is not None:
            body["cache_salt"] = salt
        start = time.perf_counter()
        answered = await client.post(f"{self.url}/v1/chat/completions", json=body)
        wall_s = time.perf_counter() - start
        assert answered.status_code == 200, answered.text
        return _answer(answered.json(), wall_s)

    async def ask_all(
        self, requests: Sequence[tuple[Sequence[Path], str]], *, at_once: int = 4, **options: Any
    ) -> list[Answer]:
        """Every request, `at_once` of them in flight."""
        room = asyncio.Semaphore(at_once)

        async def one(images: Sequence[Path], question: str) -> Answer:
            async with room:
                return await self.ask(client, images, question, **options)

        async with httpx.AsyncClient(timeout=REQUEST_S) as client:
            return await asyncio.gather(*(one(*request) for request in requests))

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while True:
            try:
                if httpx.get(f"{self.url}/health", timeout=5).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            assert self._process.poll() is None, self.log.read_text()[-4000:]
            assert time.monotonic() < deadline, self.log.read_text()[-4000:]
            time.sleep(0.25)


@cache
def data_url(path: Path) -> str:
    """An image file as clients send it."""
    kind = "png" if path.suffix == ".png" else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def _answer(told: dict[str, Any], wall_s: float) -> Answer:
    (choice,) = told["choices"]
    steps = choice["logprobs"]["content"]
    top = [sorted((t["logprob"] for t in step["top_logprobs"]), reverse=True) for step in steps]
    usage = told["usage"]
    return Answer(
        tuple(_id(step["token"]) for step in steps),
        {_id(one["token"]): one["logprob"] for one in steps[0]["top_logprobs"]},
        (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
        usage["prompt_tokens"],
        tuple(one[0] - one[1] for one in top),
        wall_s,
    )


def _id(token: str) -> int:
    return int(token.removeprefix("token_id:"))
