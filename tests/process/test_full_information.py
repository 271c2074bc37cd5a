from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from process.chains import REFERENCE, models

from drsim.process.belief_bounds import lower_bound
from drsim.process.belief_programme import belief_programme
from drsim.process.compile import compile_model
from drsim.process.full_information import full_information
from drsim.process.shipped import find_model
from drsim.process.spec import Model
from drsim.process.terms import Terms

any_terms = st.builds(
    Terms, budget=st.integers(0, 3), cooldown=st.integers(0, 2), intervention_price=st.sampled_from([0.0, 0.02])
)


@settings(deadline=None, max_examples=60)
@given(models(most_steps=5, most_modes=2), any_terms)
def test_it_is_what_a_perfect_critic_tells(spec: Model, terms: Terms) -> None:
    """With scores that give the state away the programme on beliefs becomes the one on states."""
    model = compile_model(spec)
    n_states = len(model.start)
    perfect = replace(model, score_mean=np.linspace(0.0, 100.0 * (n_states - 1), n_states), score_sd=np.ones(n_states))
    programme = belief_programme(perfect, terms, n_points=301)
    assert programme.value == pytest.approx(full_information(model, terms), abs=1e-9)


@settings(deadline=None, max_examples=60)
@given(models(most_steps=5, most_modes=2), any_terms, st.sampled_from([0.0, 0.004]))
def test_lower_bound_and_programme_enclose_the_optimum(spec: Model, terms: Terms, critic_price: float) -> None:
    model = compile_model(spec)
    terms = replace(terms, critic_price=critic_price)
    programme = belief_programme(model, terms, n_points=101)
    low = lower_bound(model, terms, n_points=45, n_bins=24)
    # the critic is called in every step there, which the programme may do without
    assert low <= programme.value + 1e-6
    assert programme.value <= full_information(model, terms) + 1e-9


def test_the_bounds_meet() -> None:
    gaps = []
    for n_points, n_bins in ((66, 24), (300, 96), (990, 192)):
        model = compile_model(REFERENCE)
        programme = belief_programme(model, Terms(budget=2), n_points=n_points)
        gaps.append(programme.value - lower_bound(model, Terms(budget=2), n_points=n_points, n_bins=n_bins))
    assert gaps[0] > gaps[1] > gaps[2] > 0.0
    assert gaps[2] < 2e-4


def test_tasks_that_differ_are_seen() -> None:
    spec = find_model("signals")
    model = compile_model(spec)
    assert model.tasks is not None
    each = [
        full_information(replace(model, transitions=it, tasks=None), Terms(budget=2)) for it in model.tasks.transitions
    ]
    assert full_information(model, Terms(budget=2)) == pytest.approx(float(model.tasks.weights @ each), abs=1e-14)
