"""Which kernel places KV on this machine: `kamera.kernels.select`'s rule, told without loading torch.

Numba is loaded, which takes a third of a second: one that is installed needn't load, and then isn't used.
"""

import os
from dataclasses import asdict, dataclass
from importlib.util import find_spec

VARIABLE = "KAMERA_KERNEL"
_NAMES = ("eager", "blocked", "numba", "triton")
_PACKAGES = {
    "numba": ": it is in the extra fast",
    "triton": ": it comes with PyTorch's GPU builds",
}
"""Kernels that need a package of their own name, and where it comes from."""
_NOTES = {
    "triton": "tested in Triton's interpreter, not run on a GPU",
    "blocked": "numba, of the extra fast, is faster",
}


@dataclass(frozen=True)
class Kernels:
    """The kernel for tensors on the CPU, and the one for tensors on a GPU, if there is one.

    `forced` is what KAMERA_KERNEL says, empty when it says nothing; `problem` why what it names, or Numba
    where it is installed, can't be used; empty when it can or isn't asked for.
    """

    cpu: str
    gpu: str
    forced: str
    problem: str = ""

    @classmethod
    def here(cls) -> "Kernels":
        """By what is installed and by KAMERA_KERNEL."""
        forced = os.environ.get(VARIABLE, "").strip().lower()
        wants_numba = forced in ("", "numba", "triton") and find_spec("numba") is not None
        problem = _numba_problem() if wants_numba else ""
        best = "numba" if wants_numba and not problem else "blocked"
        cpu = best if forced in ("", "triton") else forced
        gpu = "triton" if forced in ("", "triton") and find_spec("triton") is not None else "eager"
        if forced in _PACKAGES and find_spec(forced) is None:
            problem = f"the package {forced} isn't installed{_PACKAGES[forced]}"
        return cls(cpu, gpu, forced, problem)

    @property
    def _lacks_triton(self) -> bool:
        return self.forced == "triton" and self.gpu != "triton"

    def to_json(self) -> dict[str, str]:
        """As `kamera doctor --json` has it."""
        return asdict(self)

    def __str__(self) -> str:
        if self.forced and self.forced not in _NAMES:
            known = ", ".join(_NAMES)
            return f"nothing: {VARIABLE}={self.forced!r:.40} is no kernel; expected one of {known}"
        if self.problem and (self.forced == "numba" or self._lacks_triton):
            return f"nothing: {VARIABLE}={self.forced}, and {self.problem}"
        notes = {**_NOTES, self.forced: f"by {VARIABLE}"} if self.forced else dict(_NOTES)
        if self.problem:
            notes["blocked"] = self.problem
        places = {"the CPU": self.cpu, "a GPU": self.gpu}
        return ", ".join(
            f"{name} on {place}" + (f" ({notes[name]})" if name in notes else "")
            for place, name in places.items()
        )


def _numba_problem() -> str:
    """Why Numba can't be used here, as `kamera.kernels.kept` finds it; empty where it can."""
    try:
        from numba import config
    except (ImportError, OSError) as error:  # an OSError: llvmlite without its library
        return f"numba is installed but can't be loaded: {' '.join(str(error).split()):.200}"
    return "numba doesn't compile: NUMBA_DISABLE_JIT is set" if config.DISABLE_JIT else ""
