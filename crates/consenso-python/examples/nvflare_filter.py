"""An NVFlare filter that lets only clipped, noised and charged updates leave a site.

    "task_result_filters": [{"tasks": ["*"], "filters": [{
        "path": "nvflare_filter.PrivateUpdates",
        "args": {"epsilon": 4.0, "delta": 1e-6, "rounds": 20, "clip": 1.0, "ledger": "/data/trial-7.ledger"}}]}]

in the site's own ``privacy.json`` or in ``config_fed_client.json`` of a job. What leaves is the difference between the trained model and the
one the site was sent (``WEIGHT_DIFF``, as ``params_transfer_type="DIFF"`` sends it), clipped as a whole to ``clip``, with exact Gaussian noise
for so many rounds. Whatever records the site has, the transcript is (ε, δ)-differentially private.

NVFlare's ``DXOFilter`` passes on what it does not know. This one refuses it: whole weights, metrics and results of another form are exact
figures of the records. NVFlare then sends an empty error in their place. Of the notes beside an update only the number of steps stays, which
counts as public. With ``ledger`` the budget is kept in a file; without it every job and every process that is started again begins anew, and what
they cost adds up.
"""

import numpy as np
from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.filter import Filter
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import ReservedHeaderKey, make_reply
from nvflare.app_common.app_constant import AppConstants

import consenso

PUBLIC_META = (MetaKey.NUM_STEPS_CURRENT_ROUND,)
PUBLIC_HEADERS = (
    AppConstants.CONTRIBUTION_ROUND, AppConstants.CURRENT_ROUND, ReservedHeaderKey.COOKIE_JAR, ReservedHeaderKey.TASK_ID,
    ReservedHeaderKey.TASK_NAME, ReservedHeaderKey.WORKFLOW,
)


class PrivateUpdates(Filter):
    """One gate for the whole run, made and charged when the first update arrives."""

    def __init__(self, epsilon, delta, rounds, clip, ledger=None, accountant=None, random_state=None):
        super().__init__()
        if ledger is not None:
            accountant = consenso.BudgetAccountant(epsilon, delta, path=ledger)
        self._budget = {"epsilon": epsilon, "delta": delta, "rounds": rounds, "clip": clip}
        self._rest = {"accountant": accountant, "random_state": random_state}
        self._gate, self._shapes = None, None

    @property
    def claim(self):
        """What is claimed about all updates together, once there is one."""
        return self._gate.claim_ if self._gate else None

    def process(self, shareable, fl_ctx):
        """The result of a task with nothing in it but a released update; NVFlare makes an empty reply of an error."""
        failed = shareable.get_return_code()
        if failed != ReturnCode.OK:
            return make_reply(failed)
        sent = from_shareable(shareable)
        if sent.data_kind != DataKind.WEIGHT_DIFF:
            raise ValueError(f"only differences of weights leave this site, not {sent.data_kind}: train with params_transfer_type=\"DIFF\"")
        meta = {key: sent.meta[key] for key in PUBLIC_META if key in (sent.meta or {})}
        reply = DXO(DataKind.WEIGHT_DIFF, self._release(sent.data), meta).to_shareable()
        reply.set_return_code(ReturnCode.OK)
        for key in PUBLIC_HEADERS:
            if (value := shareable.get_header(key)) is not None:
                reply.set_header(key, value)
        return reply

    def _release(self, weights):
        names = sorted(weights)
        arrays = [np.asarray(weights[name]) for name in names]
        if not all(np.issubdtype(array.dtype, np.floating) for array in arrays):
            raise ValueError("an update is arrays of floating-point numbers, not yet compressed or encrypted: put this filter first")
        shapes = [(name, array.shape) for name, array in zip(names, arrays)]
        if self._gate is None:
            dim = sum(array.size for array in arrays)
            self._gate, self._shapes = consenso.UpdateGate(dim=dim, **self._budget, **self._rest), shapes
        if shapes != self._shapes:
            raise ValueError("an update has the arrays of the first one, with the same names and shapes")
        released, at, noised = self._gate.release(np.concatenate([array.ravel() for array in arrays])), 0, {}
        for name, array in zip(names, arrays):
            noised[name] = released[at : at + array.size].reshape(array.shape).astype(array.dtype)
            at += array.size
        return noised
