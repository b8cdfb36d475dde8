"""Runs the M-RoPE families' own processors over one chat and prints what they make of it.

A script for a subprocess of its own: the processors want torchvision, which the tests' environment hasn't.
Arguments: a folder with one checkpoint a family and `request.json`, `media.npz` beside them.
"""

import json
import sys
from pathlib import Path

import numpy as np
import transformers
from PIL import Image
from transformers import AutoFeatureExtractor, AutoImageProcessor, AutoTokenizer, AutoVideoProcessor


def processed(folder: Path, request: dict, media: dict) -> dict:
    """The processor's outputs for the rendered chat."""
    parts = {
        "image_processor": AutoImageProcessor.from_pretrained(folder, backend="pil"),
        "tokenizer": AutoTokenizer.from_pretrained(folder),
    }
    given = {"images": [Image.fromarray(media["image"])], "text": [request["text"]]}
    if request["fps"]:
        parts["video_processor"] = AutoVideoProcessor.from_pretrained(folder)
        frames = media["frames"]
        told = {"fps": request["fps"], "total_num_frames": len(frames)}
        told["frames_indices"] = list(range(len(frames)))
        given["videos"] = [frames]
        given["videos_kwargs"] = {"do_sample_frames": False, "video_metadata": [told]}
    if request["audio"]:
        parts["feature_extractor"] = AutoFeatureExtractor.from_pretrained(folder)
        given["audio"] = [media["audio"]]
        given["videos_kwargs"]["fps"] = request["fps"]
    processor = getattr(transformers, request["processor"])(**parts)
    return processor(**given, return_tensors="pt")


root = Path(sys.argv[1])
media = dict(np.load(root / "media.npz"))
arrays = {}
for name, request in json.loads((root / "request.json").read_text()).items():
    out = processed(root / name, request, media)
    for key, value in out.items():
        if hasattr(value, "numpy"):
            arrays[f"{name}/{key}"] = value.numpy()
np.savez(root / "processed.npz", **arrays)
