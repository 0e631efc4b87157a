"""Golden masks and parts of noise of masked sums, in the standard library alone.

    python masked.py > masked.json

`masks`: ChaCha with 12 rounds as RFC 8439 has it, but with a counter and a stream of 64 bits each. The key of a label is made of the edge's secret one word of the set of dropped agents
after the other: the first 32 bytes of the stream numbered by the word, at block (index << 24), under the key with its last byte xored with 11. Words are then read at
block (round << 24) of the stream numbered by the edge, under that key with its last byte xored with 10; the end with the larger number subtracts.

`parts`: R rounds with up to t further tries of Delta-sensitive sums are mu-GDP with mu^2 = (R + t) Delta^2 / sigma^2, and delta(epsilon) of that is Phi(-e/mu + mu/2) - exp(e) Phi(-e/mu - mu/2);
an agent's part is sigma / sqrt(m).
"""

import json
import math
import struct


def block(key, counter, stream):
    def rotate(x, n):
        return ((x << n) | (x >> (32 - n))) & 0xFFFFFFFF

    state = list(struct.unpack("<4I", b"expand 32-byte k")) + list(struct.unpack("<8I", key))
    state += [counter & 0xFFFFFFFF, counter >> 32, stream & 0xFFFFFFFF, stream >> 32]
    x = state[:]

    def quarter(a, b, c, d):
        x[a] = (x[a] + x[b]) & 0xFFFFFFFF
        x[d] = rotate(x[d] ^ x[a], 16)
        x[c] = (x[c] + x[d]) & 0xFFFFFFFF
        x[b] = rotate(x[b] ^ x[c], 12)
        x[a] = (x[a] + x[b]) & 0xFFFFFFFF
        x[d] = rotate(x[d] ^ x[a], 8)
        x[c] = (x[c] + x[d]) & 0xFFFFFFFF
        x[b] = rotate(x[b] ^ x[c], 7)

    for _ in range(6):
        for column in range(4):
            quarter(column, 4 + column, 8 + column, 12 + column)
        for d in range(4):
            quarter(d, 4 + (d + 1) % 4, 8 + (d + 2) % 4, 12 + (d + 3) % 4)
    return struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(x, state)))


def purpose(key, byte):
    return key[:31] + bytes([key[31] ^ byte])


def masks(secret, me, other, agents, round, dropped, count):
    key = secret
    for index in range((agents + 63) // 64):
        word = sum(1 << (d % 64) for d in dropped if d // 64 == index)
        key = block(purpose(key, 11), index << 24, word)[:32]
    edge = min(me, other) << 32 | max(me, other)
    words = struct.unpack("<8Q", block(purpose(key, 10), round << 24, edge))[:count]
    sign = 1 if me < other else -1
    return [sign * w % 2**64 for w in words]


def delta_of(mu, epsilon):
    phi = lambda x: math.erfc(-x / math.sqrt(2)) / 2
    return phi(-epsilon / mu + mu / 2) - math.exp(epsilon) * phi(-epsilon / mu - mu / 2)


def part(epsilon, delta, rounds, drop_outs, company, sensitivity):
    low, high = 1e-6, 100.0
    for _ in range(200):
        mu = (low + high) / 2
        low, high = (mu, high) if delta_of(mu, epsilon) < delta else (low, mu)
    return math.sqrt(rounds + drop_outs) * sensitivity / low / math.sqrt(company)


def main():
    cases = []
    for me, other, agents, round, dropped in [(0, 1, 4, 1, []), (3, 2, 4, 7, [0]), (5, 99, 100, 2, [4, 70]), (70, 3, 100, 900, [64])]:
        secret = bytes((7 * i + me) % 256 for i in range(32))
        words = [str(w) for w in masks(secret, me, other, agents, round, dropped, 3)]
        cases.append(dict(secret=list(secret), me=me, other=other, agents=agents, round=round, dropped=dropped, words=words))
    parts = []
    for epsilon, delta, rounds, drop_outs, company in [(1.0, 1e-6, 20, 0, 3), (1.0, 1e-6, 20, 2, 2), (0.1, 1e-5, 50, 1, 9), (4.0, 1e-6, 10, 3, 1)]:
        parts.append(dict(epsilon=epsilon, delta=delta, rounds=rounds, drop_outs=drop_outs, company=company,
                          over_sensitivity=part(epsilon, delta, rounds, drop_outs, company, 1.0)))
    print(json.dumps(dict(masks=cases, parts=parts), indent=1))


main()
