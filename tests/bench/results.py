"""What a measurement found, whether it may be judged, and how it is shown."""

import dataclasses
import json
import statistics

SPREAD_MAX = 2.0
NEIGHBOURS_MAX = 0.2


@dataclasses.dataclass
class Result:
    what: str
    values: list  # one for each pair; the median counts
    unit: str = ""  # "" for a ratio
    at_least: float = None  # the bar, from one side or the other; none: for information
    at_most: float = None
    raw: list = dataclasses.field(default_factory=list)  # what the ratios were taken against
    raw_unit: str = ""
    notes: list = dataclasses.field(default_factory=list)
    neighbours: float = 0.0
    machine_was_busy: bool = False

    @property
    def measured(self):
        return statistics.median(self.values)

    def bar(self):
        bar = self.at_most if self.at_least is None else self.at_least
        return "-" if bar is None else f"{bar:.3g}{self.unit}"

    def obstacle(self):
        """Why it can't be judged; empty if it can."""
        if self.machine_was_busy:
            return "the machine was busy"
        if self.raw and max(self.raw) > SPREAD_MAX * min(self.raw):
            return f"raw figures spread {max(self.raw) / min(self.raw):.1f}-fold"
        if self.neighbours > NEIGHBOURS_MAX:
            return f"others took {self.neighbours:.0%} of the machine"
        return ""

    def verdict(self):
        if self.at_least is None and self.at_most is None:
            return ""
        if self.obstacle():
            return "not judged: " + self.obstacle()
        high_enough = self.at_least is None or self.measured >= self.at_least
        low_enough = self.at_most is None or self.measured <= self.at_most
        return "reached" if high_enough and low_enough else "**not reached**"

    def cells(self):
        measured = f"{number(self.measured)}{self.unit}"
        if len(self.values) > 1:
            measured += f" ({number(min(self.values))}-{number(max(self.values))})"
        raw = ""
        if self.raw:
            raw = f"{number(min(self.raw))}-{number(max(self.raw))}{self.raw_unit}"
        return [self.what, self.bar(), measured, raw, self.verdict()]


def number(value):
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.3f}"


def table(results):
    """Markdown, so that it can be quoted as it is."""
    rows = [["what", "bar", "measured (pairs)", "raw, min-max", ""]]
    rows += [result.cells() for result in results]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |"
             for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def write_json(path, about, results):
    entries = [{"what": result.what, "at_least": result.at_least, "at_most": result.at_most,
                "measured": result.measured,
                "unit": result.unit, "values": result.values, "raw": result.raw,
                "raw_unit": result.raw_unit.strip(), "verdict": result.verdict(),
                "neighbours": round(result.neighbours, 3), "notes": result.notes}
               for result in results]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**about, "results": entries}, file, indent=1)
        file.write("\n")
