"""The lab's runs: on given models, written as one report that pages are made from.

catalog    all of them: binding, probes, and the paper's tables and figures
binding    every arm on the binding task; probes: the quick probes
settings   what is the same for every model
section    what every section says first; commit: of which source
worker     one model under several runs; jobs: several models in processes of their own
lab        runs on models -> sections, saved as they grow
benchmark  a public benchmark under arms
report     the JSON file
html       the same as one page; html_arms: its tables of arms; svg: charts; prose: the Markdown in texts
"""

from kamera.lab.runs.report import read_report, write_section

__all__ = ["read_report", "write_section"]
