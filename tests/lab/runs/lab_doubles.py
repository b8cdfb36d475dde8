"""A run and its section, of no model."""

from typing import Any

from kamera.lab.reproductions.chart import Chart, Series
from kamera.lab.reproductions.claim import SHOWN, Claim, at_least, at_most
from kamera.lab.reproductions.reproduction import Reproduction

COMMIT = {"id": "0" * 40, "changed": False}
RAN = {"torch": "2", "transformers": "5", "machine": "m", "num_threads": 1}


def figure(value: float | None, low: float | None = None, high: float | None = None) -> Any:
    return {"value": value, "low": low, "high": high, "n": 4}


def one_run(name: str = "one", **changed: Any) -> Reproduction:
    """Two claims, of which `nano-b` breaks the first, and one that is shown."""
    given: dict[str, Any] = {
        "title": "A title",
        "paper": "What the *paper* did with `code`.",
        "ours": "What ours does.",
        "run": lambda subject: {"figures": {}},
        "claims": (
            Claim("`patch`: η", "eta", "0.98 (Table 9)", at_least(0.9), "ours is small"),
            Claim("bytes", "bytes", "0.06", at_most(0.5)),
            Claim("rank", "rank", "–", SHOWN),
        ),
        "charts": lambda models: [
            Chart("η", "lines", "rank", "η", [Series(n, [1.0], [0.5]) for n in models])
        ],
    }
    return Reproduction(name=name, **{**given, **changed})


def section(**models: Any) -> dict[str, Any]:
    given = {
        "nano_a": {"figures": {"eta": figure(0.95, 0.9, 1.0), "bytes": figure(0.1)}},
        "nano_b": {"figures": {"eta": figure(0.5, 0.4, 0.6), "rank": figure(3.0)}},
        **models,
    }
    about = {"dtype": "float32", "digest": "d" * 64, "seconds": 1.0}
    return {
        "command": "kamera lab one --items 4 --seed 0",
        "n": 4,
        "seed": 0,
        "commit": COMMIT,
        "environment": RAN,
        "models": {n: m if "failed" in m else {**about, **m} for n, m in given.items()},
    }
