#!/usr/bin/env python3
"""Trains the network of package network and writes its weights and a test case that holds Go to the same outputs.

    forecaster/network/train/train.py -traces DIR -o forecaster/network/weights.bin

It needs go, numpy and PyTorch (Debian: python3-numpy, python3-torch, and libopenblas0-pthread, with which an epoch takes 20
seconds in place of three minutes). Run it in the root of the repository. The same traces, seed and versions give the same
weights: sums are made by one thread, in one order.
"""
import argparse
import json
import os
import struct
import subprocess
import tempfile
import zlib

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import torch

import series

FEATURES, HIDDEN1, HIDDEN2, LEVELS, MIDDLE = 127, 96, 64, [.05, .1, .25, .5, .75, .8, .9, .95, .99], 3
SPANS = [(h, h) for h in (1, 2, 3, 5, 8, 11, 15, 18, 22, 26, 30, 40, 50, 60)] + [(15, 30)]  # as in Go
# What counts: minutes 15 to 30 and their maximum, and the levels that are scored.
TARGET_WEIGHT = [.15, .15, .15, .15, .2, .3, 1, 1, 1, 1, 1, .3, .2, .2, 4]
LEVEL_WEIGHT = [.3, .3, .3, 1, .3, 1, 1, 1, 1]
NOISE, DROPOUT, DECAY, RATE, BATCH = .2, .15, 2e-2, 2e-3, 1024
AVERAGE = 1e-3  # weights are averaged over about 1/AVERAGE steps, which makes runs with other seeds more alike
MAGIC = b"forewarm net 2\n"
TARGETS = len(SPANS)


def draw_samples(traces, directory):
    """Writes a file of rows for each group of series, so that whole groups can be held out. Go computes the inputs."""
    everything = series.read(traces)
    for group in sorted({s.group for s in everything}):
        draws = [d for s in everything if s.group == group for d in series.draw(s, everything)]
        with tempfile.TemporaryFile() as f:
            for d in draws:
                f.write(struct.pack("<3i", len(d.y), len(d.origins), d.offset))
                f.write(d.y.astype("<f8").tobytes() + d.origins.astype("<i4").tobytes())
            f.seek(0)
            command = ["go", "run", "./forecaster/network/train/samples"]
            inputs = subprocess.run(command, stdin=f, stdout=subprocess.PIPE, check=True).stdout
        inputs = np.frombuffer(inputs, "<f4").reshape(-1, FEATURES + 2)
        inputs = np.split(inputs, np.cumsum([len(d.origins) for d in draws])[:-1])
        with open(os.path.join(directory, group), "wb") as f:
            for d, x in zip(draws, inputs):
                f.write(sample_rows(d, x).astype("<f4").tobytes())


def sample_rows(d, inputs):
    """Features, level over spread, the squared spread over the usual distance of minutes and of the window's largest from
    the level, and the outcomes in units of the squared spread (NaN: unknown)."""
    some = inputs[:, -1] > 0
    x, level, unit = inputs[some, :FEATURES], inputs[some, -2:-1], inputs[some, -1:] ** 2
    ahead = np.append(d.y, np.full(60, np.nan))[d.origins[some, None] + np.arange(60)]
    outcomes = np.stack([ahead[:, first - 1:last].max(1) for first, last in SPANS], 1)
    distance = np.abs(outcomes[:, [SPANS.index((30, 30)), -1]] - level ** 2) + .05 * level ** 2
    distance = distance[~np.isnan(distance).any(1)]
    if distance.sum() == 0:
        return x[:0]
    return np.column_stack([x, level / np.sqrt(unit), unit / distance.mean(0), outcomes / unit])


def activate(x):
    return x * (1 + x / torch.sqrt(1 + x * x)) / 2


def positive(x):
    return (x + torch.sqrt(x * x + 1)) / 2


class Network(torch.nn.Module):
    """Features -> for each target the median and the distances to the other quantiles, in units of the spread."""

    def __init__(self, mean, deviation):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("inverse", 1 / deviation)
        sizes = [FEATURES, HIDDEN1, HIDDEN2, TARGETS * len(LEVELS)]
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.drop = torch.nn.Dropout(DROPOUT)
        with torch.no_grad():
            self.layers[2].weight *= .1

    def forward(self, x):
        x = ((x - self.mean) * self.inverse).clamp(-4, 4)
        if self.training:
            x = x + NOISE * torch.randn_like(x)
        x = self.drop(activate(self.layers[0](x)))
        x = self.drop(activate(self.layers[1](x)))
        o = self.layers[2](x).view(-1, TARGETS, len(LEVELS))
        middle = o[..., MIDDLE:MIDDLE + 1]
        up = middle + positive(o[..., MIDDLE + 1:]).cumsum(-1)
        down = middle - positive(o[..., :MIDDLE]).flip(-1).cumsum(-1).flip(-1)
        return torch.cat([down, middle, up], -1)


def loss(net, rows, j):
    x, level, y = rows[j, :FEATURES], rows[j, FEATURES], rows[j, FEATURES + 3:]
    scale = rows[j, FEATURES + 1:FEATURES + 2].repeat(1, TARGETS)
    scale[:, -1] = rows[j, FEATURES + 2]  # of the largest minute, which lies far from the level where most minutes are silent
    z = net(x) + level[:, None, None]
    q = torch.tensor(LEVELS)
    known = ~torch.isnan(y)
    miss = torch.nan_to_num(y)[..., None] - z.clamp(min=0) ** 2
    pinball = (torch.maximum(q * miss, (q - 1) * miss) * torch.tensor(LEVEL_WEIGHT)).sum(-1) * scale
    each = (torch.tensor(TARGET_WEIGHT) * known * pinball.clamp(max=20)).sum(-1) / sum(TARGET_WEIGHT)
    return each.mean() + .01 * (z.clamp(max=0) ** 2).mean()


def train(rows, seed, epochs):
    torch.manual_seed(seed)
    x = rows[:, :FEATURES]
    net = Network(x.mean(0), x.std(0) + 1e-3)
    average = Network(net.mean, 1 / net.inverse)
    steps = len(rows) // BATCH
    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=epochs * steps + 1, pct_start=.1)
    for epoch in range(epochs):
        order = torch.randperm(len(rows))
        total = 0.0
        for i in range(steps):
            value = loss(net, rows, order[i * BATCH:(i + 1) * BATCH])
            optimizer.zero_grad()
            value.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                for a, b in zip(average.parameters(), net.parameters()):
                    a.lerp_(b, 1 if epoch == 0 else AVERAGE)
            total += value.item()
        print(f"epoch {epoch + 1}: loss {total / steps:.4f}", flush=True)
    average.eval()
    return average


def encode(net):
    parts = [net.mean, net.inverse]
    for layer in net.layers:
        parts += [layer.bias, layer.weight.T]
    body = MAGIC + np.concatenate([p.detach().numpy().astype("<f4").ravel() for p in parts]).tobytes()
    return body + struct.pack("<I", zlib.crc32(body))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-traces", required=True, help="directory of the traces")
    parser.add_argument("-o", required=True, help="file of weights to write")
    parser.add_argument("-without", default="", help="groups of series to leave out, separated by commas")
    parser.add_argument("-seed", type=int, default=0)
    parser.add_argument("-epochs", type=int, default=10)
    parser.add_argument("-samples", help="directory of samples: those in it are used, else they are drawn into it")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        samples = args.samples or scratch
        if not os.path.isdir(samples) or not os.listdir(samples):
            os.makedirs(samples, exist_ok=True)
            draw_samples(args.traces, samples)
        groups = [g for g in sorted(os.listdir(samples)) if g not in args.without.split(",")]
        rows = np.concatenate([np.fromfile(os.path.join(samples, g), "<f4") for g in groups])
    rows = torch.from_numpy(rows.reshape(-1, FEATURES + 3 + TARGETS))
    print(f"{len(rows)} samples of {', '.join(groups)}", flush=True)
    net = train(rows, args.seed, args.epochs)
    with open(args.o, "wb") as f:
        f.write(encode(net))
    if not args.without:
        some = rows[:: max(1, len(rows) // 5)][:5, :FEATURES]
        with torch.no_grad():
            cases = [{"features": x, "quantiles": q} for x, q in zip(some.tolist(), net(some).tolist())]
        with open(os.path.join(os.path.dirname(args.o), "testdata", "outputs.json"), "w") as f:
            json.dump(cases, f)


if __name__ == "__main__":
    main()
