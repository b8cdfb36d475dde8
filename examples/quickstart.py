"""An agent's window over four pictures: admit, ask, recall, reorder. The README shows this file."""

from pathlib import Path

import kamera
from kamera.lab.pictures import write_views

pictures = sorted(write_views(Path("build/pictures")).glob("*.png"))
with kamera.Session.open(kamera.packaged_model(), capacity=3) as session:
    for picture in pictures[:4]:
        outcome = session.admit(picture, name=picture.stem)  # the oldest leaves when it is full
    print(outcome.explain())  # chunk by chunk: how it was served, why, at what cost
    answer = session.ask("what color is the shape?")
    print(answer.text, f"({answer.num_prefilled} tokens of the window prefilled)")
    print(session.recall("view1").explain())  # an old one is back; no vision tower runs for it
    session.prepare_reorders()  # off the path: one patch for every ordering
    print(session.reorder(["view1", "view4", "view3"]).explain())
