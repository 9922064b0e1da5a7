"""Writes mixed.json: 100 prompts of six domains, made of phrases of our own, the same for the same code.

    python benchmarks/prompts/make_mixed.py [--check]

Domains follow each other in turn, and every fifth prompt is long, so that a beginning of the list is a sample of all of
it. With 256 tokens after them the long ones cross a window of 512 tokens.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from pathlib import Path

PATH = Path(__file__).with_name("mixed.json")
PROMPTS = 100
SEED = 6
SIZES = ("short", "middle", "short", "middle", "long")
PIECES = {"short": 1, "middle": 4}
LONG_CHARACTERS = {"chinese": 620, "arithmetic": 620, "json": 1000}
LONG_CHARACTERS_ELSEWHERE = 1900

_NOUNS = ("harbour", "letter", "garden", "engine", "winter", "bridge", "market", "clock", "river", "museum", "orchard")
_VERBS = ("remembers", "follows", "repairs", "paints", "crosses", "measures", "describes", "forgets", "opens")
_PLACES = ("behind the old mill", "at the edge of the town", "in a quiet room", "under a grey sky", "near the station")
_TURNS = ("Nobody noticed at first", "That was the plan", "Later it became clear why", "It took most of the day")
_NAMES = ("total", "index", "queue", "record", "score", "buffer", "path", "window", "token", "budget")
_DEEDS = ("count", "merge", "filter", "parse", "update", "collect", "reverse", "split", "normalise")
_CITIES = ("Rostock", "Bergen", "Osaka", "Quito", "Lyon", "Accra", "Perth", "Tartu")
_SUBJECTS = ("老师", "小猫", "工程师", "邻居", "船长", "孩子们", "图书馆", "火车")
_ACTIONS = ("正在观察天空", "修好了旧钟", "走过长桥", "写下新的计划", "打开了窗户", "等待下一场雨", "讲述远方的故事")
_TIMES = ("清晨", "傍晚", "下雪的日子", "假期里", "很久以前", "昨天")
_LINES = ("open the gate", "red blue green", "one two three four", "tick tock", "la la la", "key=value;", "0 1 1 0")


def _code(rng: random.Random) -> str:
    deed, first, second = rng.choice(_DEEDS), *rng.sample(_NAMES, 2)
    return (
        f"def {deed}_{first}({first}, {second}=0):\n"
        f'    """{deed.capitalize()} every {first} that is larger than {second}."""\n'
        f"    found = []\n    for item in {first}:\n        if item > {second}:\n"
        f"            found.append(item * {rng.randint(2, 9)})\n    return found\n\n\n"
    )


def _prose(rng: random.Random) -> str:
    first, second = rng.sample(_NOUNS, 2)
    year = rng.randint(1820, 1990)
    return (
        f"In {year} a traveller who {rng.choice(_VERBS)} the {first} {rng.choice(_PLACES)} wrote about the {second}. "
        f"{rng.choice(_TURNS)}, and the {second} {rng.choice(_VERBS)} the {first} {rng.choice(_PLACES)}. "
    )


def _records(rng: random.Random) -> str:
    record = {
        "id": rng.randint(1000, 9999),
        "city": rng.choice(_CITIES),
        "tags": rng.sample(_NAMES, 2),
        "open": rng.random() < 0.5,
        "price": round(rng.uniform(1, 99), 2),
    }
    return json.dumps(record) + ",\n"


def _arithmetic(rng: random.Random) -> str:
    a, b, c = (rng.randint(11, 99) for _ in range(3))
    return f"{a} + {b} = {a + b}\n{a} * {c} = {a * c}\n{a + b} - {c} = {a + b - c}\n"


def _chinese(rng: random.Random) -> str:
    clauses = [rng.choice(_TIMES), *(rng.choice(_SUBJECTS) + rng.choice(_ACTIONS) for _ in range(2))]
    return "\N{FULLWIDTH COMMA}".join(clauses) + "。"


def _repetition(rng: random.Random) -> str:
    line = rng.choice(_LINES)
    return (line + rng.choice((" ", "\n", ", "))) * rng.randint(4, 9)


DOMAINS: dict[str, tuple[str, Callable[[random.Random], str]]] = {
    "code": ("import math\n\n\n", _code),
    "prose": ("A story.\n\n", _prose),
    "json": ("[\n", _records),
    "arithmetic": ("Exercises with their results:\n", _arithmetic),
    "chinese": ("一篇短文\N{FULLWIDTH COLON}", _chinese),
    "repetition": ("", _repetition),
}


def prompts() -> list[dict[str, str]]:
    """Return the prompts, each with its domain and size."""
    rng = random.Random(SEED)
    made = []
    for number in range(PROMPTS):
        domain, size = list(DOMAINS)[number % len(DOMAINS)], SIZES[number % len(SIZES)]
        beginning, piece = DOMAINS[domain]
        text = beginning
        if size == "long":
            while len(text) < LONG_CHARACTERS.get(domain, LONG_CHARACTERS_ELSEWHERE):
                text += piece(rng)
        else:
            text += "".join(piece(rng) for _ in range(PIECES[size]))
        made.append({"domain": domain, "size": size, "text": text.rstrip()})
    return made


def main() -> None:
    """Write the file, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail when the file is not what would be written")
    text = json.dumps(prompts(), ensure_ascii=False, indent=1) + "\n"
    if parser.parse_args().check:
        raise SystemExit(0 if PATH.read_text(encoding="utf-8") == text else f"{PATH.name} is stale")
    PATH.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
