"""Texts whose second part leans on the first: who owns what is said once, then only "its owner" is.

A, two paragraphs: six things, their owners, and where each is kept. B, as long as is asked for: what happened
to them, in which every sentence that matters needs A to be understood. Drawn from a seed.
"""

from __future__ import annotations

import random

THINGS = (
    "cabinet",
    "boat",
    "mill",
    "lantern",
    "piano",
    "wagon",
    "bridge",
    "ladder",
    "kettle",
    "violin",
    "saddle",
    "barrel",
)
OWNERS = (
    "Marta",
    "Peter",
    "Anna",
    "Thomas",
    "Julia",
    "Victor",
    "Clara",
    "Simon",
    "Helen",
    "Oscar",
    "Laura",
    "Felix",
)
PLACES = (
    "Lisbon",
    "the north",
    "the harbour",
    "the valley",
    "Vienna",
    "the coast",
    "the market",
    "the school",
)
EVENTS = (
    "was repaired in {p}",
    "was painted again",
    "was carried to {p}",
    "was sold in {p}",
    "was left behind near {p}",
    "was cleaned before the winter",
    "was lent to a neighbour from {p}",
    "was locked away for the night",
)
ASIDES = (
    "The weather was mild that week and the shops stayed open longer than usual.",
    "A clerk wrote the date in the large book by the door.",
    "Nobody in the street remembered who had asked for it first.",
    "Two children watched from the stairs and counted the carts that passed.",
    "Later the same day a letter came from {p}, and it was read aloud twice.",
    "The old men at the café said that such things happened every year.",
)
QUESTIONS = (
    "Who gave something to the museum? Answer with the name of the owner.",
    "Name one person of the story whose thing was moved.",
)


def antecedent_and_text(seed: int, num_sentences: int) -> tuple[str, str]:
    """A, and B of so many sentences about the things, each with an aside behind it."""
    rng = random.Random(seed)
    things, owners = rng.sample(THINGS, 6), rng.sample(OWNERS, 6)
    owned = [f"The {t} belongs to {o}." for t, o in zip(things, owners, strict=True)]
    kept = [
        f"{o} keeps the {t} in {rng.choice(PLACES)}." for t, o in zip(things, owners, strict=True)
    ]
    told = []
    for _ in range(num_sentences):
        event = rng.choice(EVENTS).format(p=rng.choice(PLACES))
        told.append(
            f"The {rng.choice(things)} {event}, and its owner heard of it the next morning."
        )
        told.append(rng.choice(ASIDES).format(p=rng.choice(PLACES)))
    told.append(f"In the end the {rng.choice(things)} was given to the museum by its owner.")
    return f"{' '.join(owned)}\n\n{' '.join(kept)}\n\n", f"{' '.join(told)}\n\n"
