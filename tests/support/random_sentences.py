"""Random sentences of the pretty language as text, seeded."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random


@dataclass
class SentenceMaker:
    """Makes random sentences, most of which are accepted."""

    random: Random
    variables: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Definitions, and a sentence or a report."""
        random = self.random
        lines = ['"light on" is A where v > 1.'] if random.random() < 0.3 else []
        named = bool(lines)
        phrase = self.phrase(random.choice((1, 2, 3, 4)), named)
        if random.random() < 0.3:
            given = ", ".join(f"of_{each} = {each}.v" for each in dict.fromkeys(self.variables))
            lines.append(f"Report Out({given}) when {phrase}.")
        else:
            lines.append(f"{phrase}." if random.random() < 0.5 else phrase)
        return " ".join(lines)

    def phrase(self, size: int, named: bool) -> str:
        random = self.random
        text = self.alternatives(size, named)
        if random.random() < 0.15:
            text += f' overall within "{random.randrange(1, 9)}ns"'
        if random.random() < 0.15:
            text += random.choice((" for each k", " for each k and v"))
        return text

    def alternatives(self, size: int, named: bool) -> str:
        roll = self.random.random()
        if size > 1 and roll < 0.3:
            parts = [self.chain(size // 2, named) for _ in range(2)]
            # A condition would go on behind the word.
            parts = [f"({each})" if " where " in each else each for each in parts]
            return self.random.choice((" and ", " or ")).join(parts)
        return self.chain(size, named)

    def chain(self, size: int, named: bool) -> str:
        random = self.random
        text = self.step(size, named)
        for _ in range(size - 1):
            roll = random.random()
            if roll < 0.2:
                text += f" not followed by {self.event(named)} {self.limit('until')}"
                continue
            if roll < 0.3:
                text += f" followed by every {self.event(named)}"
            else:
                link = random.choice(("followed by", "then", "followed or overlapped by"))
                text += f" {link} {self.step(1, named)}"
            if random.random() < 0.3:
                text += f" {self.limit('by')}"
        if size > 1 and random.random() < 0.15:
            text += f" with no {self.event(named)} in between"
        return text

    def limit(self, word: str) -> str:
        random = self.random
        if random.random() < 0.8:
            return random.choice(('within "3ns"', "within 5 ns", 'within "1h"'))
        return (
            f"{word} {random.choice(('19:00', chr(34) + '19:00' + chr(34), chr(34) + '07:30 Europe/London' + chr(34)))}"
        )

    def step(self, size: int, named: bool) -> str:
        random = self.random
        times = ("2 times", "1 to 2 times", "at least one", "at least 2 times", "any number of")
        prefix = f"{random.choice(times)} " if random.random() < 0.2 else ""
        if size > 1 and random.random() < 0.4:
            return f"{prefix}({self.phrase(size - 1, named)})"
        return prefix + self.item(named)

    def item(self, named: bool) -> str:
        random = self.random
        roll = random.random()
        event = self.event(named)
        if roll < 0.12:
            return f'{event} before "D"'
        if roll < 0.24:
            return f'{event} other than "D"'
        if roll < 0.45:
            self.variables.append(random.choice("xy"))
            return f"{event} as {self.variables[-1]}"
        return event

    def event(self, named: bool) -> str:
        random = self.random
        roll = random.random()
        if roll < 0.1:
            return random.choice(("any event", 'any event but "C"'))
        if named and roll < 0.3:
            return '"light on"'
        text = random.choice(('"A"', '"B"', '"C"', "A", "B"))
        if random.random() < 0.2:
            own = [f"k = {each}.k" for each in self.variables]
            text += f" where {random.choice(('v < 2', 'v = 1 and k != null', *own))}"
        return text


def make_sentence(random: Random) -> str:
    """The text of a random sentence."""
    return SentenceMaker(random).text()
