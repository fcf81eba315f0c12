"""Series that the network is trained on: of public traces, synthetic, and altered copies of both.

A series is a rate by the minute. The same traces and versions give the same series. Only the first two thirds of a trace are
used. Series of one service are a group, so that a whole service can be held out.
"""
import csv
import gzip
import math
import os
import zlib
from itertools import accumulate
from typing import NamedTuple

import numpy as np

FIT_SHARE = 2 / 3
SHORTEST = 40  # minutes
THINNINGS = [1, .2, .04, .01]  # shares of requests that are kept in thinner copies of a trace of requests
TOTAL = "*"  # the class of all requests

ALL, PREFILL, REQUESTS = ["requests", "prefill", "decode"], ["prefill"], ["requests"]
TRACES = [  # file, group and what is summed up
    ("agentic_claude_7d", "agentic", ALL),
    ("azure2024_conv_week_10min_digitised", "azure2024", ALL),
    ("azure2024_conv_week_1in40_recon", "azure2024", ALL),
    ("nab_seasonal", "nab", REQUESTS),
    ("sageserve_m365_1min", "sageserve", PREFILL),
    ("nasa_aug95_1min", "nasa", PREFILL),
    ("nasa_jul95_1min", "nasa", PREFILL),
    ("worldcup98_1min", "worldcup98", PREFILL),
    ("servegen_clients_10min", "sg", ALL),
    ("servegen_deepseek_r1_1d", "deepseek", ALL),
    ("servegen_mm_image_1d", "mm", ALL),
    ("servegen_sgA_14d", "sg", ALL),
]


class Series(NamedTuple):
    group: str
    name: str
    first: int  # minute of the first value in the trace
    y: np.ndarray


def random(name):
    return np.random.default_rng([1, zlib.crc32(name.encode())])


def read(directory):
    """All series: of traces, then made ones."""
    return [s for trace in TRACES for s in read_trace(directory, *trace)] + list(made())


def read_trace(directory, file, group, dims):
    with gzip.open(os.path.join(directory, file + ".csv.gz"), "rt") as f:
        rows = csv.reader(f)
        at = {name: i for i, name in enumerate(next(rows))}
        names = [n for n in ("t_s", "requests", "prompt_tokens", "cached_tokens", "output_tokens") if n in at]
        classes, numbers = [], []
        for row in rows:
            classes.append(row[at["class"]])
            numbers.append([float(row[at[n]] or 0) for n in names])
    numbers = dict(zip(names, np.array(numbers).T))
    binned = "requests" in numbers
    zero = np.zeros(len(classes))
    minute = numbers["t_s"].astype(int) // 60
    of = {
        "requests": numbers.get("requests", zero + 1),
        "prefill": numbers.get("prompt_tokens", zero) - numbers.get("cached_tokens", zero),
        "decode": numbers.get("output_tokens", zero),
    }
    drawn, classes = random(file).random(len(classes)), np.array(classes)
    for name in [TOTAL, *np.unique(classes)]:
        here = classes == name
        if name == TOTAL:
            if group == "nab":  # its series are of unrelated services
                continue
            here[:] = True
        span = minute[here] if group == "nab" else minute
        width = np.diff(np.unique(span)).min() if binned else 1
        n = int(FIT_SHARE * (span.max() + width))
        here &= minute < n
        for dim in dims:
            for kept in THINNINGS[:1] if binned else THINNINGS:
                rows = here & (drawn < kept)
                sums = np.bincount(minute[rows], of[dim][rows], n)
                if sums.sum() > 0:
                    first = 0 if name == TOTAL else minute[rows].min()
                    y = np.convolve(sums, np.full(width, 1 / 60 / width))[first:n]
                    yield Series(group_of(group, name), f"{file}/{name}/{dim}/{kept}", first, y)


def group_of(group, name):
    return "deepseek" if name.startswith("deepseek") else group


def share(s, series):
    """The factor on the number of samples: more in small groups, so that services with many classes do not dominate."""
    if s.group == "made":
        return 1
    return min(8, max(1, math.sqrt(200 / sum(o.group == s.group for o in series))))


class Draw(NamedTuple):
    """Origins of a series, as numbers of minutes. The first minute of the series is offset minutes after a midnight."""
    y: np.ndarray
    origins: np.ndarray
    offset: int


def draw(s, series):
    """A series whole and in altered copies, whole and in parts, with random origins."""
    if len(s.y) < SHORTEST:
        return
    r = random(s.name)
    count = int(60 * math.sqrt(len(s.y) / 100) * share(s, series))
    yield Draw(s.y, origins(len(s.y), count, r), s.first)
    for _ in range(3):
        y = alter(s, series, r)
        y = y[r.integers(len(y)):][:int(log_uniform(r, 1, 3000)) + 70]
        if len(y) >= SHORTEST:
            yield Draw(y, origins(len(y), count // 4, r), r.integers(1440))
    y = alter(s, series, r)
    yield Draw(y, origins(len(y), count // 2, r), r.integers(1440))


def origins(minutes, count, r):
    ends = minutes - 60
    if ends <= 3:
        ends = minutes - 31
    if ends <= 3:
        return np.zeros(0, int)
    young = log_uniform(r, 1, min(ends - 3, 700), count // 8).astype(int) - 1  # over-represented
    return np.unique(3 + np.concatenate([r.integers(ends - 3, size=count), young]))


def alter(s, series, r):
    """A copy of a series that differs from it as another series might."""
    y = s.y.copy()
    if r.random() < .4:  # with another of its kind, at another time
        o = series[r.integers(len(series))]
        if o.group == s.group and len(o.y) > 200 and y.mean() > 0 and o.y.mean() > 0:
            factor = y.mean() / o.y.mean() * math.exp(2 * r.normal() - 1)
            y += factor * np.resize(np.roll(o.y, r.integers(len(o.y))), len(y))
    if r.random() < .2:  # a level shift
        y[r.integers(len(y)):] *= math.exp(r.normal())
    if r.random() < .1:  # by ten minutes
        y[:len(y) // 10 * 10] = np.repeat(means(y, 10), 10)
    if r.random() < .15:  # faster
        fast = means(y, r.integers(2, 5))
        if len(fast) > 200:
            y = fast
    if r.random() < .25 and y.mean() > 0:  # of fewer requests, down to one in some hours, of sizes that differ
        requests = r.poisson(np.minimum(1e5, y / y.mean() * log_uniform(r, .01, 40)))
        shape = log_uniform(r, .3, 4)
        y = r.gamma(requests * shape, 1 / shape)
    if r.random() < .1:  # an outage
        y[r.integers(len(y)):][:r.integers(10, 150)] = 0
    if r.random() < .1:  # slower
        y = np.repeat(y[r.integers(len(y) // 2 + 1):][:len(y) // 2], 2)
        y = gamma(r, 3, y)
    if r.random() < .15:  # with gaps
        for _ in range(r.integers(1, 6)):
            y[r.integers(len(y)):][:r.integers(1, 26)] = np.nan
    return y


def means(y, n):
    """The means of each n minutes; a rest is left out."""
    return y[:len(y) // n * n].reshape(-1, n).mean(1)


def log_uniform(r, low, high, size=None):
    return low * (high / low) ** r.random(size)


def gamma(r, shape, mean):
    return r.gamma(shape, mean / shape)


def made():
    """Synthetic series of kinds that are rare in the traces. Many of them change their level."""
    r = random("made")
    for i in range(40):
        for k, kind in enumerate([walk, steady, launch, sessions, jobs, rare, daily, clock, lone, site, site, site]):
            y = kind(int(300 + log_uniform(r, 1, 6000)), r)
            if r.random() < .4:
                change_level(y, r)
            yield Series("made", f"made/{k}/{i}", 0, y)


def change_level(y, r):
    """Once to three times: for good, or for up to half a day."""
    for _ in range(r.integers(1, 4)):
        until = 30 + r.integers(700) if r.random() < .4 else None
        y[r.integers(len(y)):][:until] *= math.exp(1.1 * r.normal())


def decay(x, keep):
    """Sums of x that keep a share each minute."""
    return np.fromiter(accumulate(x, lambda a, b: keep * a + b), float)


def walk(n, r):
    """Moves by a share of itself each minute, without end or about a mean; counts of requests add noise."""
    step, keep = log_uniform(r, .005, .1), 1
    if r.random() < .5:
        keep = 1 - math.exp(-1 - 5 * r.random())
        step = r.uniform(.1, 1) * math.sqrt(1 - keep * keep)
    return gamma(r, log_uniform(r, 3, 90_000), np.exp(decay(step * r.normal(size=n), keep)))


def clock(n, r):
    """Bursts at exact intervals, and little or nothing between them."""
    every = r.choice([5, 10, 15, 20, 30, 60, 120])
    lasting, noise = 1 + r.integers(1 + every // 5), log_uniform(r, 2, 600)
    between = max(0, .3 * r.random() - .15)
    return r.gamma(noise * np.where(np.arange(n) % every < lasting, 1, between)) / noise


def lone(n, r):
    """Something in each minute with the same probability."""
    share, sigma = 2 ** (-.3 - 6 * r.random()), .2 + 1.4 * r.random()
    return (r.random(n) < share) * r.lognormal(0, sigma, n)


def site(_, r):
    """Busy traffic of two to fourteen days: a smooth rhythm of the day, quieter weekends, a level that wanders over hours
    and from day to day, and crowds that come within minutes and leave slowly."""
    days = r.integers(2, 14)
    n = days * 1440 + r.integers(1440)
    t = np.arange(n)
    z = np.zeros(n)
    for k in range(1, 5):
        z += .8 * r.random() / k / k * np.sin(2 * math.pi * (t * k / 1440 + r.random()))
    z[(t // 1440 + r.integers(7)) % 7 >= 5] -= max(0, 1.2 * r.random() - .6)
    keep = 1 - math.exp(-2.5 - 3.5 * r.random())
    z += decay((.02 + .3 * r.random()) * math.sqrt(1 - keep * keep) * r.normal(size=n), keep)
    z += decay(.3 * r.random() * r.normal(size=days + 1), .6)[t // 1440]
    crowds = r.random(n) < max(0, log_uniform(r, 1, 12) - 2) / 1440
    rising = decay(crowds * (.1 + r.exponential(.5, n)), .85)
    z += decay(.15 * rising, 1 - 1 / log_uniform(r, 10, 150))
    return gamma(r, log_uniform(r, 3, 9000), np.exp(z))


def steady(n, r):
    """Poisson requests of lognormal sizes; half of them follow the time of day."""
    sigma, season = .3 + 1.7 * r.random(), max(0, 1.6 * r.random() - .8)
    requests = r.poisson(log_uniform(r, .03, 300) * (1 + season * np.sin(2 * math.pi * np.arange(n) / 1440)))
    minute = np.repeat(np.arange(n), requests)
    return np.bincount(minute, r.lognormal(0, sigma, len(minute)), n)


def launch(n, r):
    """Rises in a straight line for a while, then stays."""
    rise, peak, floor = log_uniform(r, 30, 600), log_uniform(r, 2, 600), .3 * r.random()
    return r.poisson(peak * (floor + (1 - floor) * np.minimum(1, np.arange(n) / rise))).astype(float)


def spells(n, r, every, lasting, shape, end=math.inf):
    """Spells of random sizes that begin now and then."""
    y, at = np.zeros(n), r.exponential(every)
    while at < min(n, end):
        spell = slice(int(at), int(at + lasting()) + 1)
        y[spell] += gamma(r, shape, np.full(len(y[spell]), r.lognormal(0, .8)))
        at += r.exponential(every)
    return y


def sessions(n, r):
    """They begin now and then, last for minutes or hours, and have sizes of their own."""
    mean = log_uniform(r, 2, 120)
    return spells(n, r, log_uniform(r, 5, 300), lambda: r.exponential(mean), 2)


def rare(n, r):
    """Silent for hours or days between bursts of some minutes; a third of them end for good."""
    n = max(n, 1440)
    end = n * r.random() if r.random() < .33 else n
    return spells(n, r, log_uniform(r, 60, 3000), lambda: int(r.exponential(10)), 1, end)


def daily(_, r):
    """Rises and falls at the same times of two to twelve days, on all days or on weekdays, steeply or over an hour, with
    little or much noise."""
    t = np.arange(r.integers(2, 12) * 1440 + r.integers(1440))
    begin, lasting, width = r.uniform(0, 1440), r.uniform(120, 1020), log_uniform(r, 5, 80)
    at = (t - begin) % 1440 - 60
    level = 1 + (log_uniform(r, 2, 16) - 1) * (np.tanh(at / width) - np.tanh((at - lasting) / width)) / 2
    if r.random() < .3:
        level[(t + 1440 - int(begin)) // 1440 % 7 >= 5] = 1
    return gamma(r, log_uniform(r, 3, 3000), level)


def jobs(n, r):
    """Steady traffic that is multiplied between two times of the day, on all days or on weekdays."""
    y = steady(max(n, 4 * 1440), r)
    t = np.arange(len(y))
    on = (t + 1440 - r.integers(1440)) % 1440 < r.integers(20, 620)
    if r.random() < .3:
        on &= t // 1440 % 7 < 5
    y[on] *= log_uniform(r, 2, 16)
    return y
