"""``random_state``: every kind becomes one stored seed, and None reads and moves no global state."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import confmax
from confmax.tables.draws import as_seed

RNG = np.random.default_rng(0)
P = RNG.dirichlet([1, 1, 1], 300)
Y = (RNG.random(300)[:, None] > P.cumsum(axis=1)).sum(axis=1)


def tuned(random_state):
    return confmax.maximize("min_recall", P, Y, randomized=True, confusion="model", random_state=random_state)


def fitted(random_state, cv):
    model = confmax.MetricClassifierCV(LogisticRegression(), metric="h_mean", cv=cv, randomized=True)
    return model.set_params(random_state=random_state).fit(P, Y)


def scored(random_state):
    return confmax.score("macro_f1", P, Y, n_replicates=60, random_state=random_state)


@pytest.fixture
def global_state():
    """The state of ``numpy.random``, which must be the same afterwards."""
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()  # noqa: NPY002
    yield
    after = np.random.get_state()  # noqa: NPY002
    assert (before[0], before[2:]) == (after[0], after[2:])
    np.testing.assert_array_equal(before[1], after[1])


@pytest.mark.usefixtures("global_state")
def test_none_is_another_seed_every_time_and_the_rule_repeats_its_draws(tmp_path):
    one, other = tuned(None), tuned(None)
    assert one.rule.is_randomized
    assert one.rule.seed != other.rule.seed
    assert 0 <= one.rule.seed < 2**63
    one.rule.save(tmp_path / "rule.json")
    again = confmax.DecisionRule.load(tmp_path / "rule.json")
    keys = np.arange(300)
    np.testing.assert_array_equal(again.predict(P, keys=keys), one.predict(P, keys=keys))
    np.testing.assert_array_equal(again.predict(P, keys=keys), one.predict(P, keys=keys))
    repeated = tuned(one.rule.seed)
    assert repeated.rule == one.rule


@pytest.mark.usefixtures("global_state")
# a split that the operating system draws may be one whose rule does not suit the final model
@pytest.mark.filterwarnings("ignore:.*on out-of-fold probabilities:UserWarning")
@pytest.mark.parametrize("cv", [3, "prefit"])
def test_none_in_estimators(cv):
    if cv == "prefit":
        model = confmax.MetricClassifierCV(LogisticRegression().fit(P, Y), cv=cv, random_state=None)
        seeds = [model.fit(P, Y).rule_.seed for _ in range(2)]
    else:
        seeds = [fitted(None, cv).rule_.seed for _ in range(2)]
    assert seeds[0] != seeds[1]
    assert max(seeds) >= 2**31  # four billion times as many as a 31-bit seed has: missed once in 2^64 runs


@pytest.mark.usefixtures("global_state")
def test_none_in_score():
    intervals = {tuple(np.ravel(scored(None).replicates)) for _ in range(3)}
    assert len(intervals) == 3
    np.testing.assert_array_equal(scored(7).replicates, scored(np.int64(7)).replicates)


@pytest.mark.usefixtures("global_state")
@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState, np.uint64])
def test_every_kind_of_state_repeats(make):
    assert tuned(make(3)).rule == tuned(make(3)).rule
    assert tuned(make(3)).rule.seed != tuned(make(4)).rule.seed
    np.testing.assert_array_equal(scored(make(3)).replicates, scored(make(3)).replicates)
    one, other = (fitted(make(3), 0.5) for _ in range(2))
    assert one.rule_ == other.rule_
    state = make(3)
    if not isinstance(state, (int, np.integer)):
        assert tuned(state).rule.seed != tuned(state).rule.seed  # the state moves on, as in scikit-learn


def test_integers_are_their_own_seed():
    assert [as_seed(k) for k in (0, 7, 2**64 - 1, np.uint64(2**64 - 1))] == [0, 7, 2**64 - 1, 2**64 - 1]
    assert type(as_seed(np.int32(3))) is int
    # a seed of more than 32 bits holds out rows too
    assert fitted(2**40 + 3, 0.5).rule_.seed == 2**40 + 3


@pytest.mark.parametrize("wrong", [-1, 2**64, True, 1.0, "0", np.random, [1]])
def test_other_states_are_refused(wrong):
    sentence = r"^random_state must be an integer from 0 to 2\*\*64 - 1, a RandomState, a Generator or None; got "
    for call in (tuned, scored, lambda state: fitted(state, 3)):
        with pytest.raises(ValueError, match=sentence):
            call(wrong)


@pytest.mark.usefixtures("global_state")
def test_none_in_reports(tmp_path):
    pytest.importorskip("vl_convert")
    solution = tuned(0)
    solution.report(tmp_path / "a.html", P, Y, n_replicates=60, random_state=None)
    assert ">None<" not in (tmp_path / "a.html").read_text()
    found = confmax.report.write_cross_fitted(tmp_path / "b.html", "h_mean", P, Y, folds=2, n_replicates=60,
                                              random_state=None)  # fmt: skip
    assert str(found.rule.seed) in (tmp_path / "b.html").read_text()


@pytest.mark.parametrize("refit", [True, False, np.True_])
def test_prefit_fits_nothing_whatever_refit_is(refit):
    model = LogisticRegression().fit(P[:100], Y[:100])
    before = model.coef_.copy()
    tuner = confmax.MetricClassifierCV(model, metric="macro_f1", cv="prefit", refit=refit)
    found = tuner.fit(P[100:], Y[100:])
    assert found.estimator_ is model
    np.testing.assert_array_equal(model.coef_, before)
    assert found.get_params()["refit"] is refit
    assert found.rule_ == confmax.maximize("macro_f1", model.predict_proba(P[100:]), Y[100:]).rule
