"""Which kernel places KV on this machine: `kamera.kernels.select`'s rule, told without loading torch."""

import os
from dataclasses import asdict, dataclass
from importlib.util import find_spec

VARIABLE = "KAMERA_KERNEL"
_NAMES = ("eager", "blocked", "numba", "triton")
_NOTES = {
    "triton": "tested in Triton's interpreter, not run on a GPU",
    "blocked": "numba, of the extra fast, is faster",
}


@dataclass(frozen=True)
class Kernels:
    """The kernel for tensors on the CPU, and the one for tensors on a GPU, if there is one.

    `forced` is what KAMERA_KERNEL says, empty when it says nothing.
    """

    cpu: str
    gpu: str
    forced: str

    @classmethod
    def here(cls) -> "Kernels":
        """By what is installed and by KAMERA_KERNEL."""
        forced = os.environ.get(VARIABLE, "").strip().lower()
        cpu = forced or ("numba" if find_spec("numba") is not None else "blocked")
        gpu = "triton" if forced in ("", "triton") and find_spec("triton") is not None else "eager"
        return cls(cpu, gpu, forced)

    def to_json(self) -> dict[str, str]:
        """As `kamera doctor --json` has it."""
        return asdict(self)

    def __str__(self) -> str:
        if self.forced and self.forced not in _NAMES:
            known = ", ".join(_NAMES)
            return f"nothing: {VARIABLE}={self.forced!r:.40} is no kernel; expected one of {known}"
        notes = {**_NOTES, self.cpu: f"by {VARIABLE}"} if self.forced else _NOTES
        places = {"the CPU": self.cpu, "a GPU": self.gpu}
        return ", ".join(
            f"{name} on {place}" + (f" ({notes[name]})" if name in notes else "")
            for place, name in places.items()
        )
