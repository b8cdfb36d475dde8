"""What a model is and whether it can be served, from its config.json alone: no model code, no torch.

    verdict = examine(read_config("path/to/checkpoint"))
    verdict.status, verdict.reasons, verdict.channels, verdict.bytes_per_token()

verdict      what is known of a model: plain data
families     model types that are served, as rows; `refused` those that aren't, with the reason
texts        the language models' defaults, as rows
layers       the type of every layer, and why some can't be relocated
rotation     how keys rotate
facts        what the language model's part says: layers, channels, rotation
reasons      why a model is refused, or limited
examine      puts them together
config_file  reads a config.json
fields       reads single values, with errors; `ranges` writes layer indices, `shown` what a config says
"""

from kamera.support.config_file import read_config
from kamera.support.examine import FAMILIES, examine
from kamera.support.families import SERVED, Family
from kamera.support.verdict import Blocked, Channel, Reason, Rope, Verdict

__all__ = [
    "FAMILIES",
    "SERVED",
    "Blocked",
    "Channel",
    "Family",
    "Reason",
    "Rope",
    "Verdict",
    "examine",
    "read_config",
]
