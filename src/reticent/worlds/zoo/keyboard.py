# SPDX-License-Identifier: Apache-2.0
r"""A keyboard: which word to suggest next, out of two hundred, and when to keep quiet.

One user is one episode: a sentence, and eight suggestions. The state is the word just written, the action the word to
suggest next, or none. The user has a word in mind. If it is the suggested one they take it; if the suggestion is its near
synonym (*flight* for *plane*) they take that in half of the cases, and the sentence goes on from there; otherwise they
type their own. A word that is taken saves its letters but one; a suggestion that is not taken annoys.

The candidate models are five topics. All share one small grammar (a subject is followed by a helper or a verb, a noun by a
link or a verb, …); after every word each topic prefers one pair of near synonyms of its own vocabulary, and in the pair one
word in 60 to 90% of the cases, all drawn once by ``seed``. What people talk about is unknown. Topic i has the word w in
mind after s with probability :math:`b_i(w\mid s)`; with :math:`\bar a` the synonym of a and q = 1/2,

.. math:: P_i(w\mid s,a)=b_i(w\mid s)\,(1-q\,[w=\bar a])+q\,b_i(\bar a\mid s)\,[w=a],\qquad
          \mathrm{taken}_i(s,a)=b_i(a\mid s)+q\,b_i(\bar a\mid s),

both linear in :math:`b_i`, so that a blend of topics is a linear mixture MDP with :math:`d_1=d_2=5`. At most twelve words
follow any word and the suggestion is a thirteenth: the model is sparse, 13 successors of 200 states.

The hidden truth: small talk and food, some work, hardly anything else. What is best to suggest is the likeliest *long*
word of the blend, or nothing where all are short or rare. Values over a sentence, in the true world, of the policies that
are optimal under other beliefs:

==========================  =====
the true blend              1.355
all small talk              1.169
all talk of food            1.141
an even blend               1.009
all talk of work            0.559
all talk of sport           0.180
all travel                  0.174
silence                     0.800
anything at random          0.035
==========================  =====

So for three of the five topics, a keyboard that takes all users for that topic does worse than none.

What people write is as private as data get. It is also what a keyboard must learn from.
"""

from __future__ import annotations

import functools

import numpy as np

from reticent.errors import InvalidInput
from reticent.worlds.models.blend import Bounds, blend
from reticent.worlds.models.names import Names
from reticent.worlds.registry import register_world
from reticent.worlds.world import World

# Words stand in pairs of near synonyms, the first beside the second and so on.
SHARED = {
    "subject": "I we you everyone she he they people",
    "helper": "want wish need require like love think believe try attempt hope expect",
    "determiner": "the this a another some any my our",
    "link": "and then with without for about before after because since but though",
}
TOPICS = {
    "travel": {
        "verb": "visit explore book reserve pack unpack leave depart",
        "adjective": "distant remote sunny warm cheap affordable crowded busy",
        "noun": "train railway flight plane hotel hostel beach coast mountain hill ticket passport suitcase backpack "
        "city town",
    },
    "food": {
        "verb": "cook prepare eat taste bake roast order serve",
        "adjective": "fresh crisp sweet sugary spicy hot delicious tasty",
        "noun": "dinner supper bread toast soup stew salad vegetables coffee espresso restaurant kitchen cake dessert "
        "recipe menu",
    },
    "work": {
        "verb": "send forward review check schedule arrange finish complete",
        "adjective": "urgent pressing monthly weekly final last important essential",
        "noun": "meeting conference report document deadline date manager boss customer client project task "
        "contract agreement budget invoice",
    },
    "sport": {
        "verb": "play compete practise exercise win beat run jog",
        "adjective": "fast quick strong fit exciting thrilling injured sore",
        "noun": "match game team club coach trainer goal score football soccer stadium field race marathon "
        "season league",
    },
    "small talk": {
        "verb": "meet see call phone laugh joke thank greet",
        "adjective": "nice lovely happy glad late early old former",
        "noun": "weekend holiday weather rain friend neighbour family parents party birthday morning evening dog puppy "
        "news story",
    },
}
GRAMMAR = {
    "subject": {"helper": 0.2, "verb": 0.8},
    "helper": {"verb": 0.8, "determiner": 0.2},
    "verb": {"determiner": 0.25, "adjective": 0.75},
    "determiner": {"noun": 1.0},
    "adjective": {"noun": 1.0},
    "noun": {"link": 0.3, "verb": 0.7},
    "link": {"subject": 0.2, "noun": 0.8},
}
WORDS = tuple(" ".join([*SHARED.values(), *(words for topic in TOPICS.values() for words in topic.values())]).split())
SILENCE = len(WORDS)
FOLLOWERS = 12
FIRST_OF_PAIR = (0.6, 0.9)
TAKES_SYNONYM = 0.5
SAVING, CALM = 0.9, 0.1
PEOPLE = (0.05, 0.35, 0.15, 0.05, 0.40)


@register_world("keyboard", episodes=50_000, sizes=(200, 201, 8, 5, 5))
def keyboard(*, horizon: int = 8, seed: int = 0, bounds: Bounds = "paper") -> World:
    """Next-word suggestions: two hundred words to choose from, or silence.

    200 states (words), 201 actions, at most 13 successors, d1 = d2 = 5 topics; a sentence starts with a subject.
    At the default horizon V* = 1.355, silence has 0.800 and suggestions at random 0.035.
    """
    if seed < 0:
        raise InvalidInput("keyboard: seed", seed, "not negative", "give a seed of at least 0")
    followers, chances = bigrams(seed)
    models, successors = candidates(followers, chances)
    subjects = [WORDS.index(word) for word in SHARED["subject"].split()]
    start = np.zeros(len(WORDS))
    start[subjects] = 1 / len(subjects)
    return blend(
        models,
        satisfaction(followers, chances),
        PEOPLE,
        PEOPLE,
        horizon,
        initial=start,
        names=Names(tuple(WORDS), (*(f"suggest {word}" for word in WORDS), "stay silent")),
        name="keyboard",
        bounds=bounds,
        successors=successors,
    )


def synonym(word: int) -> int:
    """The other word of the pair.

    >>> WORDS[synonym(WORDS.index("flight"))]
    'plane'
    """
    return word + 1 - 2 * (word % 2)


@functools.cache
def lexicon() -> dict[tuple[str, str], tuple[int, ...]]:
    """The words of each (topic, class) by index; shared classes are in every topic."""
    listed = {(topic, part): words for topic, parts in TOPICS.items() for part, words in parts.items()}
    listed |= {(topic, part): words for topic in TOPICS for part, words in SHARED.items()}
    return {key: tuple(WORDS.index(word) for word in words.split()) for key, words in listed.items()}


def bigrams(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What may follow each word, ``(200, 12)``, and how likely by topic, ``(5, 200, 12)``; unused places have chance 0."""
    random = np.random.default_rng(seed)
    part_of = {word: part for (_, part), words in lexicon().items() for word in words}
    followers = np.zeros((len(WORDS), FOLLOWERS), dtype=np.int64)
    chances = np.zeros((len(TOPICS), len(WORDS), FOLLOWERS))
    for word in range(len(WORDS)):
        place = 0
        for part, share in GRAMMAR[part_of[word]].items():
            # A shared class has one favourite pair after this word, a class of content words one for every topic.
            groups = [list(TOPICS)] if part in SHARED else [[topic] for topic in TOPICS]
            for group in groups:
                favourite, first = random.choice(lexicon()[group[0], part]), random.uniform(*FIRST_OF_PAIR)
                followers[word, place : place + 2] = favourite, synonym(int(favourite))
                of = [list(TOPICS).index(topic) for topic in group]
                chances[of, word, place : place + 2] = share * first, share * (1 - first)
                place += 2
    return followers, chances


def candidates(followers: np.ndarray, chances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The topics' transition models ``(5, 200, 201, 13)`` and their successors; the last column is the suggestion."""
    words, actions = len(WORDS), len(WORDS) + 1
    twins = np.array([*(synonym(word) for word in range(words)), -1])
    meant = followers[:, None, :] == twins[:, None]  # the user has the suggestion's synonym in mind
    swayed = TAKES_SYNONYM * chances[:, :, None, :] * meant
    models = np.concatenate([chances[:, :, None, :] - swayed, swayed.sum(axis=-1, keepdims=True)], axis=-1)
    suggested = np.broadcast_to(np.array([*range(words), 0])[:, None], (words, actions, 1))
    listed = np.broadcast_to(followers[:, None, :], (words, actions, FOLLOWERS))
    return models, np.concatenate([listed, suggested], axis=-1)


def taken(followers: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """The chance that a suggestion is taken, by topic, ``(5, 200, 201)``; silence is never taken."""
    table = np.zeros((len(TOPICS), len(WORDS), len(WORDS) + 1))
    for word in range(len(WORDS)):
        for place, follower in enumerate(followers[word]):
            table[:, word, follower] += chances[:, word, place]
            table[:, word, synonym(int(follower))] += TAKES_SYNONYM * chances[:, word, place]
    return table


def satisfaction(followers: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """The reward by topic, ``(5, 200, 201)``: letters saved by words that are taken, and calm unless one is refused."""
    letters = np.array([*(len(word) for word in WORDS), 1])
    saved = (letters - 1) / (letters.max() - 1)
    accepted = taken(followers, chances)
    calm = accepted.copy()
    calm[:, :, SILENCE] = 1
    return np.asarray(SAVING * accepted * saved + CALM * calm)
