"""Two-hop questions over two short texts, written for this project: the control without media.

The second text names something only by what the first one says of it; the answer is in the first. Each
answer is one common English word, which a tokenizer of some ten thousand tokens keeps whole.
"""

from __future__ import annotations

from typing import NamedTuple


class TwoHop(NamedTuple):
    """One question.

    Attributes:
        first: A, which holds the answer.
        second: B, which says which of A's things is meant.
        question: about B.
        lead: how the answer begins.
        answer: the next word.
    """

    first: str
    second: str
    question: str
    lead: str
    answer: str

    @property
    def tail(self) -> str:
        """Question and the answer's beginning."""
        return f"Question: {self.question}\nAnswer: {self.lead}"


TWO_HOP: tuple[TwoHop, ...] = (
    TwoHop(
        "The mill on the north bank grinds wheat for the bakers. The mill on the south bank presses "
        "olives, and its wheel was carved by a carpenter who never asked to be paid.",
        "Last week the mill with the carved wheel was sold to a family from the coast. They want to keep "
        "its wheel and to paint the door.",
        "What does the mill that was sold press?",
        "It presses",
        "olives",
    ),
    TwoHop(
        "Two boats lie in the harbor. The Heron is painted green and carries mail. The Swallow is painted "
        "red and carries fish to the market.",
        "In the storm on Sunday the boat that carries mail lost its anchor, and it took the crew until "
        "noon to bring it home.",
        "What is the color of the boat that lost its anchor?",
        "Its color is",
        "green",
    ),
    TwoHop(
        "Marta restored the old maps after the flood. Peter built the shelves on which they are kept. Both "
        "have worked at the library for years.",
        "The person who built the shelves left for Lisbon this morning and took the key of the hall along.",
        "What is the name of the person who left for Lisbon?",
        "The name is",
        "Peter",
    ),
    TwoHop(
        "The school has two gardens. In the upper garden the children grow beans. In the lower garden, "
        "behind the wall, they grow corn.",
        "Rabbits came in the night and ate everything in the garden behind the wall. The children want to "
        "build a fence.",
        "What did the rabbits eat?",
        "They ate the",
        "corn",
    ),
    TwoHop(
        "The clock in the tower was made of iron. The clock in the hall was made of silver and was a gift "
        "of the mayor.",
        "The gift of the mayor stopped at midnight, and nobody in town knows how to repair it.",
        "What is the clock that stopped made of?",
        "It is made of",
        "silver",
    ),
    TwoHop(
        "Anna has a cat that sleeps on the roof. Her brother has a dog that follows the postman through "
        "the whole street.",
        "Yesterday the animal that follows the postman fell into the river. Two boys pulled it out.",
        "Which animal fell into the river?",
        "It was the",
        "dog",
    ),
    TwoHop(
        "The bridge at the castle was closed in March. The bridge at the station was closed in October, "
        "when its planks had begun to rot.",
        "The bridge with the rotten planks will be rebuilt in stone. The work takes two years.",
        "In which month was the bridge closed that will be rebuilt?",
        "It was closed in",
        "October",
    ),
    TwoHop(
        "The first train of the day goes to London and has a dining car. The second train goes to Paris "
        "and has beds.",
        "Thomas bought a ticket for the train with beds. He packed a book, two apples and a coat.",
        "To which city will Thomas go?",
        "He will go to",
        "Paris",
    ),
    TwoHop(
        "In the museum the left room shows shells from the sea. The right room shows coins, and its "
        "windows are barred.",
        "Thieves broke into the room with the barred windows and left through the cellar before the guard "
        "woke up.",
        "What does the room show into which the thieves broke?",
        "It shows",
        "coins",
    ),
    TwoHop(
        "Doctor Lind treats children in the white house. Doctor Berg treats horses in the barn behind the "
        "church.",
        "The doctor who works behind the church won a prize for a new medicine and gave the money away.",
        "What does the doctor treat who won a prize?",
        "The doctor treats",
        "horses",
    ),
    TwoHop(
        "The baker opens at five and bakes bread. The baker's sister opens at nine and sells cheese from "
        "the mountains.",
        "The shop that opens at nine will move to the square next month, beside the fountain.",
        "What does the shop sell that will move to the square?",
        "It sells",
        "cheese",
    ),
    TwoHop(
        "The eastern lighthouse has a white lamp. The western lighthouse has a blue lamp and stands on a "
        "rock that no ship can reach.",
        "Since Friday the lamp of the lighthouse on the rock is dark, and the captains complain.",
        "What is the color of the lamp that is dark?",
        "Its color is",
        "blue",
    ),
    TwoHop(
        "The orchestra has two guests this year. The guest from Norway plays the piano. The guest from "
        "Chile plays the violin.",
        "The guest from Chile fell ill before the concert, so that the second half was cancelled.",
        "Which instrument does the guest play who fell ill?",
        "The guest plays the",
        "violin",
    ),
    TwoHop(
        "The farm by the lake keeps sheep. The farm by the forest keeps bees and sells its jars at the gate.",
        "The farm that sells jars at the gate was visited by the king, who stayed for an hour.",
        "What does the farm keep that the king visited?",
        "It keeps",
        "bees",
    ),
    TwoHop(
        "Clara won the race in spring and received a lamp. Julia won it in autumn and received a bicycle.",
        "The winner of the race in autumn gave her prize to a neighbor, who has far to go to work.",
        "What did the neighbor receive?",
        "The neighbor received a",
        "bicycle",
    ),
    TwoHop(
        "The north tower holds seven bells. The south tower holds three, which are older than the town.",
        "Lightning hit the tower with the old bells in June. Its roof burned, but the walls still stand.",
        "How many bells does the tower hold that lightning hit?",
        "It holds",
        "three",
    ),
    TwoHop(
        "The cook of the inn makes soup on Mondays. The cook of the ship makes rice, and he learned it "
        "from his grandmother.",
        "The cook who learned from his grandmother wrote a book. It was printed twice within a year.",
        "What does the cook make who wrote a book?",
        "He makes",
        "rice",
    ),
    TwoHop(
        "The old road leads through a desert. The new road leads through a forest and has a toll at its "
        "second bend.",
        "The road with the toll was flooded in the winter, and the buses took the other one.",
        "Through what does the road lead that was flooded?",
        "It leads through a",
        "forest",
    ),
    TwoHop(
        "The painter drew a lion for the hotel. The sculptor carved a bear for the bank, of a wood as dark "
        "as coal.",
        "A boy climbed on the work that was carved of dark wood and broke off an ear.",
        "Which animal lost an ear?",
        "It was the",
        "bear",
    ),
    TwoHop(
        "The first letter was written in ink and asked for money. The second letter was written in pencil "
        "and asked for a horse.",
        "The judge read the letter in pencil aloud, and everyone in the room laughed.",
        "For what did the letter ask that the judge read?",
        "It asked for a",
        "horse",
    ),
    TwoHop(
        "The house on the hill has a roof of copper. The house in the valley has a roof of straw and "
        "belongs to a teacher.",
        "The teacher's house will be sold in May, because it is too small for six children.",
        "What is the roof of the house made of that will be sold?",
        "It is made of",
        "straw",
    ),
    TwoHop(
        "The tall twin works as a nurse. The short twin works as a pilot and is never home on weekends.",
        "The twin who is never home on weekends bought a house by the sea and a small boat.",
        "What is the work of the twin who bought a house?",
        "The twin works as a",
        "pilot",
    ),
    TwoHop(
        "The red box holds buttons. The yellow box holds stamps from all over the world; it was found in "
        "an attic.",
        "The box from the attic was sold for more than a car costs. The buyer didn't give a name.",
        "What does the box hold that was sold?",
        "It holds",
        "stamps",
    ),
    TwoHop(
        "The island in the bay grows coffee. The island beyond the cape grows tea, and a single family "
        "lives on it.",
        "The island with the single family asked for a school. The government will send a boat instead.",
        "What does the island grow that asked for a school?",
        "It grows",
        "tea",
    ),
)
