"""A Flower mod that sends only clipped, noised and charged updates.

    from flwr.clientapp import ClientApp
    app = ClientApp(mods=[private_updates(epsilon=4.0, delta=1e-6, rounds=20, clip=1.0)])

What leaves the client is the difference between its model and the one it was sent, clipped as a whole to ``clip``, with exact Gaussian
noise for so many rounds. Whatever records the client has, the transcript is (ε, δ)-differentially private. Metrics of a reply are exact
figures of the records and are taken out, but for the number of examples, which counts as public. A further round is refused.
"""

import numpy as np
from flwr.app import Array, ArrayRecord, MetricRecord

import consenso

PUBLIC = ("num-examples",)


def private_updates(epsilon, delta, rounds, clip, accountant=None, random_state=None):
    """A mod for ``ClientApp``: one gate for the whole run, made when the first model arrives."""
    gates = []

    def mod(message, context, call_next):
        if message.metadata.message_type.split(".")[0] != "train":
            return call_next(message, context)
        (sent,) = message.content.array_records.values()
        before = {name: np.array(array.numpy(), dtype=np.float64) for name, array in sent.items()}
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        ((key, answered),) = reply.content.array_records.items()
        after = {name: array.numpy() for name, array in answered.items()}
        update = np.concatenate([(after[name] - before[name]).ravel() for name in before])
        if not gates:
            gates.append(consenso.UpdateGate(epsilon, delta, rounds, len(update), clip, accountant=accountant, random_state=random_state))
        released, at, noised = gates[0].release(update), 0, {}
        for name, start in before.items():
            noised[name] = Array((start + released[at : at + start.size].reshape(start.shape)).astype(after[name].dtype))
            at += start.size
        reply.content.array_records[key] = ArrayRecord(noised)
        for name, metrics in list(reply.content.metric_records.items()):
            reply.content.metric_records[name] = MetricRecord({k: v for k, v in metrics.items() if k in PUBLIC})
        return reply

    mod.claim = lambda: gates[0].claim_ if gates else None
    return mod
