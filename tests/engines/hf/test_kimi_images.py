"""Our Pillow processor of Kimi-K2.5 against the family's own, which needs torchvision."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from kamera.engines.hf.kimi_images import Kimi_K25ImageProcessorPil

TORCHVISION = Path(sys.prefix) / "torchvision"
OPERATORS = Path(__file__).parent / "torchvision_ops"
SIZES = [(224, 224), (100, 300), (1500, 1200), (3, 5), (28, 29), (700, 30)]
SETTINGS = {
    "image_processor_type": "Kimi_K25ImageProcessor",
    "max_patches": 1024,
    "size": {"max_height": 40, "max_width": 40},
    "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.5, 0.6, 0.7],
}
OWN = """
import sys
from pathlib import Path
import numpy as np
from PIL import Image
from transformers.models.kimi_k25.image_processing_kimi_k25 import Kimi_K25ImageProcessor
folder = Path(sys.argv[1])
processor = Kimi_K25ImageProcessor.from_pretrained(folder)
for path in sorted(folder.glob("*.png")):
    out = processor(images=[Image.open(path)], return_tensors="np")
    np.savez(path.with_suffix(".npz"), **out)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random pictures, settings, and what the family's own processor makes of them."""
    made = tmp_path_factory.mktemp("kimi")
    (made / "preprocessor_config.json").write_text(json.dumps(SETTINGS))
    rng = np.random.default_rng(0)
    for number, (width, height) in enumerate(SIZES):
        small = rng.integers(0, 256, (max(2, height // 16), max(2, width // 16), 3), dtype=np.uint8)
        Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC).save(
            made / f"{number}.png"
        )
    path = os.pathsep.join([str(OPERATORS), str(TORCHVISION)])
    environment = {**os.environ, "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", OWN, str(made)], env=environment, check=True)
    return made


@pytest.mark.skipif(not TORCHVISION.is_dir(), reason="torchvision isn't beside the environment")
@pytest.mark.parametrize("number", range(len(SIZES)))
def test_it_gives_the_family_s_own_grid_and_pixels(folder: Path, number: int) -> None:
    processor = Kimi_K25ImageProcessorPil.from_pretrained(folder)
    with Image.open(folder / f"{number}.png") as image:
        ours = processor(images=[image], return_tensors="np")
    own = np.load(folder / f"{number}.npz")
    assert ours["image_grid_thw"].tolist() == own["image_grid_thw"].tolist()
    assert ours["pixel_values"].shape == own["pixel_values"].shape
    levels = np.abs(ours["pixel_values"] - own["pixel_values"]) * 255 * 0.7
    width, height = SIZES[number]
    resized = width * height > 1024 * 14 * 14 or max(width, height) > 40 * 14
    # Two bicubic resamplers that round to 8 bits may be one or two levels of 255 apart.
    assert levels.max() <= (2.01 if resized else 1e-3)
