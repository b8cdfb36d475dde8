"""Public benchmarks from local folders; nothing is downloaded (docs/lab/benchmarks.md).

contract      what a benchmark and its items are; media, rows, interleaved, scoring: what loaders share
mm_niah, muirbench, milebench, mmlongbench_doc, slidevqa, video_mme, egoschema, musique    one loader each
opened        a benchmark by its name and options, as a command line has them
evaluation    a benchmark under arms; window: an item as a request (these two load the engine)
lmms          Kamera as a model of lmms-eval; lmms_entry: where lmms-eval finds it
"""

from kamera.lab.benchmarks.contract import Benchmark, BenchmarkItem, Part, Scored
from kamera.lab.benchmarks.egoschema import EgoSchema
from kamera.lab.benchmarks.media import Film, ImageBytes, ImageFile, PdfPage, Picture
from kamera.lab.benchmarks.milebench import MileBench
from kamera.lab.benchmarks.mm_niah import MMNiah
from kamera.lab.benchmarks.mmlongbench_doc import MMLongBenchDoc
from kamera.lab.benchmarks.muirbench import MuirBench
from kamera.lab.benchmarks.musique import MuSiQue
from kamera.lab.benchmarks.slidevqa import SlideVQA
from kamera.lab.benchmarks.video_mme import VideoMME

BENCHMARKS: dict[str, type[Benchmark]] = {
    benchmark.name: benchmark
    for benchmark in (
        MMNiah,
        MuirBench,
        MileBench,
        MMLongBenchDoc,
        SlideVQA,
        VideoMME,
        EgoSchema,
        MuSiQue,
    )
}

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "BenchmarkItem",
    "EgoSchema",
    "Film",
    "ImageBytes",
    "ImageFile",
    "MMLongBenchDoc",
    "MMNiah",
    "MileBench",
    "MuSiQue",
    "MuirBench",
    "Part",
    "PdfPage",
    "Picture",
    "Scored",
    "SlideVQA",
    "VideoMME",
]
