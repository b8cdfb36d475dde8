"""The packaged checkpoint loads with Transformers' Auto classes from its folder, with no code of ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kamera

TORCHVISION = Path(sys.prefix) / "torchvision"
OPERATORS = Path(__file__).parent / "torchvision_ops"

LOAD = """
import sys
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor
folder = sys.argv[1]
processor = AutoProcessor.from_pretrained(folder)
model = AutoModelForImageTextToText.from_pretrained(folder)
image = Image.new("RGB", (224, 224), (255, 255, 255))
content = [{"type": "image", "image": image}, {"type": "text", "text": "where is the ball?"}]
inputs = processor.apply_chat_template(
    [{"role": "user", "content": content}],
    tokenize=True, add_generation_prompt=True, return_dict=True, return_tensors="pt",
)
tokens = model.generate(**inputs, max_new_tokens=2, do_sample=False)
assert not any(name.split(".")[0] == "kamera" for name in sys.modules)
print(type(model).__name__, type(processor).__name__, inputs["input_ids"].shape[1], tokens.shape[1])
"""


@pytest.mark.skipif(not TORCHVISION.is_dir(), reason="torchvision isn't beside the environment")
def test_the_packaged_checkpoint_loads_with_the_auto_classes() -> None:
    path = os.pathsep.join([str(OPERATORS), str(TORCHVISION)])
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(kamera.packaged_model())],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    model, processor, num_tokens, num_after = done.stdout.split()
    assert (model, processor) == ("Qwen2_5_VLForConditionalGeneration", "Qwen2_5_VLProcessor")
    assert int(num_tokens) > 66
    assert int(num_tokens) < int(num_after) <= int(num_tokens) + 2
