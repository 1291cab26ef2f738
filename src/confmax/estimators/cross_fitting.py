"""Cross-fitting: models of the splits give the probabilities that a rule is tuned on, and one model decides later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.parallel import Parallel, delayed

from confmax.estimators import steps
from confmax.estimators.base import BehindModel
from confmax.progress import bar_for


class CrossFitting(BehindModel):
    """A classifier whose rule is tuned on out-of-fold probabilities, with the parameters that say of which models."""

    cv: Any
    refit: bool
    ensemble: bool
    n_jobs: int | None
    progress: bool

    @property
    def _is_prefit(self) -> bool:
        return isinstance(self.cv, str) and self.cv == "prefit"

    def _model(self) -> Any:
        """Return the estimator to work with: the fitted one itself, or a clone."""
        if not self._is_prefit:
            return clone(self.estimator)
        if self.ensemble:
            raise ValueError(
                "ensemble=True averages fold models, but cv='prefit' fits none; pass cv=5, or ensemble=False"
            )
        if not hasattr(self.estimator, "classes_"):
            raise NotFittedError("cv='prefit' needs a fitted estimator; fit it first, on other rows than these")
        return self.estimator

    def _refuse_no_switch(self, *names: str) -> None:
        """Refuse parameters that must be True or False, and are not."""
        for name in names:
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ValueError(f"{name} must be True or False; got {getattr(self, name)!r}")

    def _cross_fitted(
        self, model: Any, X: Any, y: Any, splits: list[tuple[Any, Any]], params: Mapping[str, Any], classes: list[Any]
    ) -> tuple[Any, NDArray[Any], list[NDArray[np.intp]]]:
        """Return the final model, the out-of-fold probabilities of all splits' test rows, and these rows, by split.

        The columns of the probabilities are the ``classes``; ``params`` are what is routed to the estimator's ``fit``.
        """
        if self.ensemble and len(splits) == 1:
            raise ValueError(
                "ensemble=True averages several fold models, but cv gave one split; pass cv=5, or ensemble=False"
            )
        if len(splits) > 1 and not (self.refit or self.ensemble):
            raise ValueError(f"refit=False needs one split, but cv gave {len(splits)}; pass refit=True, or one split")
        fit_params = steps.fit_params_for(self.estimator, params)
        # models that are not used again need not come back from other processes
        keep = self.ensemble or not self.refit
        n_models = len(splits) + (self.refit and not self.ensemble)
        with bar_for(self.progress, f"fitting {type(self.estimator).__name__}", "models") as bar:
            counted = splits if bar is None else bar.each(splits, n_models)
            found = Parallel(n_jobs=self.n_jobs)(
                delayed(steps.fit_split)(clone(model), X, y, split, fit_params, keep=keep) for split in counted
            )
            if self.ensemble:
                model = steps.MeanOfModels([fitted for _, _, fitted in found], np.array(classes))
            else:
                # the splits fitted clones: this one is not fitted yet
                model = model.fit(X, y, **fit_params) if self.refit else found[0][2]
            if bar is not None:
                bar.update(n_models, n_models)
        tests = [np.arange(len(y))[test] for _, test in splits]
        return model, np.concatenate([steps.all_columns(part, own, classes) for part, own, _ in found]), tests

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata routing of this estimator (tuning), the wrapped one's ``fit``, and the splitter."""
        # a model that was fitted before gets no metadata: its ``fit`` is not called
        router = MetadataRouter(owner=type(self).__name__) if self._is_prefit else super().get_metadata_routing()
        router.add_self_request(self)
        return router.add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
