"""The lab: tasks, nano checkpoints, metrics and reports. Needs the extras `hf` and `lab`."""
