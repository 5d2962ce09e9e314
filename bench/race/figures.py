"""What is made of the times: turns, medians, intervals and ratios. Pure, so that it is tested with numbers that are known."""

import random
import statistics

SAMPLES = 2000


def turns(names, round_number):
    """A B C in one round, C B A in the next: a machine that drifts disturbs all alike."""
    return list(names) if round_number % 2 == 0 else list(reversed(names))


def interval(values):
    """95 % bootstrap interval of the median; of one value, that value."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(SAMPLES))
    return [medians[int(SAMPLES * 0.025)], medians[int(SAMPLES * 0.975) - 1]]


def figure(values):
    """{"median", "ci95"} of repeated values."""
    return {"median": statistics.median(values), "ci95": interval(values)}


def ratio(over, under):
    """The median, with its interval, of the ratios of each round: both sides of a ratio were measured beside each other."""
    return figure([a / b for a, b in zip(over, under, strict=True)])


def spent(turn_times, wall_s):
    """Seconds by name, and "between" for what was no turn; together the wall clock's."""
    out = {}
    for name, seconds in turn_times:
        out[name] = out.get(name, 0.0) + seconds
    out["between"] = wall_s - sum(out.values())
    return out
