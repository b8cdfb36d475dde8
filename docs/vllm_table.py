"""Writes the figures of docs/vllm.md: `nox -s vllm_table`, after `make test-vllm`.

They are kept in docs/vllm.json, taken from build/vllm.json as they stand: none is typed by hand. A test
compares.
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MEASURED = ROOT / "build" / "vllm.json"
FIGURES = Path(__file__).parent / "vllm.json"
PAGE = Path(__file__).parent / "vllm.md"
START, END = "<!-- vllm tables -->", "<!-- /vllm tables -->"
PASSES = ("first sight", "again")
PATCH_BEFORE = "rank 16, float32, the default when it was measured"
"""What a run's patches kept that doesn't say it: one of before there were profiles."""

Figures = dict[str, Any]


def section(figures: Figures) -> str:
    """What stands between the markers."""
    parts = [_exact(figures), _tasks(figures), _pressure(figures), _ttft(figures)]
    return "\n".join(line for part in parts for line in [*part, ""]).rstrip()


def _exact(figures: Figures) -> list[str]:
    lines = [
        "Largest |Δlogprob| over vLLM's top 20 tokens, float32 (the bound is 1e-4; a wrong δ and a wrong "
        "image are held above it):",
        "",
        "| model | full rank against a prefill | blind against Transformers with a 4-D mask |",
        "| --- | ---: | ---: |",
    ]
    for model, got in figures["exact"].items():
        prefill = got.get("full_rank_against_plain", got.get("full_rank_against_transformers"))
        lines.append(f"| `{model}` | {prefill:.1e} | {got['blind_against_oracle']:.1e} |")
    for model, got in figures["tensor_parallel"].items():
        prefill = got["full_rank_against_transformers"]
        lines.append(f"| `{model}`, two ranks | {prefill:.1e} | |")
    return lines


def _tasks(figures: Figures) -> list[str]:
    lines = [
        "The lab's tasks over HTTP with real PNG images, beside the same arm in Transformers:",
        "",
        "| model, arm | n | accuracy | in Transformers | agreement with re-prefill "
        "| same answer as Transformers |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, tasks in figures["tasks"].items():
        got = tasks["all"]
        lines.append(
            f"| `{name}` | {got['n']} | {got['accuracy']:.3f} | {got['accuracy_transformers']:.3f} "
            f"| {got['agreement']:.3f} | {got['same_answer_as_transformers']:.3f} |"
        )
    return lines


def _pressure(figures: Figures) -> list[str]:
    lines = [
        "Under load, plain and composed requests mixed, blocks short, against the same requests one at a "
        "time:",
        "",
        "| what | requests | preemptions | wrong answers | |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for model, got in figures["pressure"].items():
        tokens = f"{got['tokens_compared']} tokens compared"
        lines.append(_load_row(model, got, tokens))
    for model, got in figures["replay"].items():
        saved = f"agents' screenshots over HTTP, {got['tokens_saved']:.0f} tokens saved"
        lines.append(_load_row(model, got, saved))
    for model, got in figures["restart"].items():
        lines += [
            "",
            f"After a restart `{model}` was shown {got['images_shown']} images that the store held: "
            f"{got['vision_tower_runs']} runs of the vision tower, {got['held_tokens_prefilled']:.0f} of "
            f"{got['held_tokens']} held tokens prefilled.",
        ]
    return lines


def _load_row(model: str, got: dict[str, Any], last: str) -> str:
    counts = f"{got['requests']} | {got['preemptions']:.0f} | {got['wrong_answers']}"
    return f"| `{model}` | {counts} | {last} |"


def _ttft(figures: Figures) -> list[str]:
    lines: list[str] = []
    for model, got in figures["ttft"].items():
        on = "agents' screenshots" if got["real_screenshots"] else "generated pictures"
        cores = got["environment"]["num_cores"]
        lines += [
            f"Time to first token of one request stream on {on} (`{model}`, {got['num_requests']} requests, "
            f"{cores} cores, load {got['environment']['load']:.1f} at the start; Kamera's patches: "
            f"{got.get('patch', PATCH_BEFORE)}): at this size of model "
            "little of it is prefill, and the share of prompt tokens computed says more. The slides of the "
            "stream are served by survivors, whose answers differ:",
            "",
            "| server | pass | median TTFT, ms | share computed | first token as plain's "
            "| largest gap of its logprob |",
            "| --- | --- | ---: | ---: | ---: | ---: |",
        ]
        for arm, passes in got["arms"].items():
            for name in (name for name in PASSES if name in passes):
                of = passes[name]["all"]
                lines.append(
                    f"| {arm} | {name} | {of['ttft_median_s'] * 1e3:.0f} | {of['computed_share']:.2f} "
                    f"| {of['same_token_as_plain']:.2f} | {of['logprob_gap_max']:.2g} |"
                )
    return lines


def page(text: str, figures: Figures) -> str:
    """The page with these figures between its markers."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{section(figures)}\n{END}{after}"


def main() -> None:
    """Take over the last run's figures and write the page."""
    if MEASURED.exists():
        figures = json.loads(MEASURED.read_text(encoding="utf-8"))
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), figures), encoding="utf-8")


if __name__ == "__main__":
    main()
