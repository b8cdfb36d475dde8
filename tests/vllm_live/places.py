"""Where things lie: the repository, what the suite writes, the checkpoints as vLLM takes them."""

import json
import shutil
from pathlib import Path
from typing import Any

import kamera

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "vllm"
REFERENCE = BUILD / "reference"
FIGURES = ROOT / "build" / "vllm.json"
SHIM = Path(__file__).parent / "shim"


def checkpoint(name: str) -> Path:
    """A packaged checkpoint, or a copy with what vLLM 0.32 asks for and Transformers 5.24 doesn't write.

    Transformers gives the same logits from either.
    """
    source = kamera.packaged_model(name)
    change = CHANGES.get(name)
    if change is None or not change(source, None):
        return source
    made = BUILD / "models" / name
    shutil.rmtree(made, ignore_errors=True)
    shutil.copytree(source, made)
    change(source, made)
    return made


def _published_tower_names(source: Path, made: Path | None) -> bool:
    """LLaVA: the tower's tensors as published checkpoints name them, `vision_tower.vision_model.…`."""
    from safetensors.torch import load_file, save_file

    old, new = "vision_tower.", "vision_tower.vision_model."
    tensors = load_file(source / "model.safetensors")
    if any(name.startswith(new) for name in tensors):
        return False
    if made is not None:
        named = {name.replace(old, new, 1): value for name, value in tensors.items()}
        save_file(named, made / "model.safetensors", metadata={"format": "pt"})
    return True


def _published_kimi_files(source: Path, made: Path | None) -> bool:
    """Kimi-K2.5: three keys of the published files that Transformers' own classes don't need."""
    config = _read(source / "config.json")
    if config.get("use_unified_vision_chunk"):
        return False
    if made is not None:
        config["architectures"] = ["KimiK25ForConditionalGeneration"]
        config["use_unified_vision_chunk"] = True
        (made / "config.json").write_text(json.dumps(config, indent=2))
        pixels = _read(source / "preprocessor_config.json")
        pixels["media_proc_cfg"] = {
            "in_patch_limit": pixels["max_patches"],
            "in_patch_limit_each_frame": pixels["max_patches"],
            "in_patch_limit_video": None,
            "patch_size": pixels["patch_size"],
            "merge_kernel_size": pixels["merge_size"],
            "patch_limit_on_one_side": pixels["size"]["max_height"],
            "image_mean": pixels["image_mean"],
            "image_std": pixels["image_std"],
            "fixed_output_tokens": None,
            "temporal_merge_kernel_size": 4,
        }
        (made / "preprocessor_config.json").write_text(json.dumps(pixels, indent=2))
    return True


CHANGES = {"nano-mha": _published_tower_names, "nano-mla": _published_kimi_files}


def _read(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(path.read_text())
    return values
